"""The mask of one piece, made when the piece is computed: never more than a block of rows beside its keys."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.fused.pieces import Piece
from softlookup.masks import Bias, Mask
from softlookup.masks.discover import rule_file
from softlookup.masks.spans import Spans


def rows_and_keys(piece: Piece, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the queries [q_len, 1] and keys [1, k_len] of the first of the folded pieces."""
    i = torch.arange(piece.q_start, piece.q_start + piece.q_len, device=device)
    j = torch.cat([torch.arange(start, stop, device=device) for start, stop in piece.runs])
    return i[:, None], j[None, :]


def hiding(allowed: Tensor, like: Tensor) -> Tensor:
    """Turn True and False into 0 and -inf."""
    return torch.zeros(allowed.shape, dtype=like.dtype, device=like.device).masked_fill_(~allowed, -math.inf)


@dataclass(frozen=True)
class SpanTiles:
    """Masks from intervals."""

    spans: Spans

    def tile(self, piece: Piece, like: Tensor) -> Tensor:
        """See ``Tiles``."""
        layers = slice(None) if piece.layer < 0 else slice(piece.layer, piece.layer + 1)
        rows = slice(piece.q_start, piece.q_start + piece.q_len)
        first, stop = self.spans.first[layers, :, rows], self.spans.stop[layers, :, rows]  # [layers, B, q]
        if first.shape[1] > 1 and piece.samples is not None:
            samples = list(piece.samples)
            first, stop = first[:, samples], stop[:, samples]
            if first.eq(first[:, :1]).all() and stop.eq(stop[:, :1]).all():
                first, stop = first[:, :1], stop[:, :1]
        if piece.q_len > 1 and first.eq(first[..., :1]).all() and stop.eq(stop[..., :1]).all():
            first, stop = first[..., :1], stop[..., :1]
        first, stop = first.to(like.device), stop.to(like.device)
        _, j = rows_and_keys(piece, like.device)
        seen = ((j >= first[..., None]) & (j < stop[..., None])).any(dim=0)  # [B or 1, q or 1, k]
        return hiding(seen, like)[:, None].expand(-1, -1, piece.q_len, -1)


def asked(mask: Mask, piece: Piece, lengths: tuple[int, int], device: torch.device) -> Tensor:
    """Ask a predicate about one piece: bool [B or 1, H or 1, q_len or 1, k_len]."""
    i, j = rows_and_keys(piece, device)
    seen = mask._on(i, j, *lengths)
    seen = seen[(None,) * (4 - seen.dim())]
    return seen[list(piece.samples)] if piece.samples is not None and seen.shape[0] > 1 else seen


@dataclass(frozen=True)
class MaskTiles:
    """Masks from a predicate, asked for one block at a time."""

    mask: Mask
    q_len: int
    k_len: int

    def tile(self, piece: Piece, like: Tensor) -> Tensor:
        """See ``Tiles``."""
        seen = asked(self.mask, piece, (self.q_len, self.k_len), like.device)
        return hiding(seen, like).expand(-1, -1, piece.q_len, -1)


@dataclass(frozen=True)
class TensorTiles:
    """Masks cut out of a tensor: bool (True = may look) or floats that are added."""

    mask: Tensor  # [B or 1, H or 1, T_q or 1, T_k or 1]

    def tile(self, piece: Piece, like: Tensor) -> Tensor:
        """See ``Tiles``."""
        mask = self.mask
        if piece.samples is not None and mask.shape[0] > 1:
            mask = mask[list(piece.samples)]
        if mask.shape[2] > 1:
            mask = mask[:, :, piece.q_start : piece.q_start + piece.q_len]
        if mask.shape[3] > 1:
            mask = torch.cat([mask[..., start:stop] for start, stop in piece.runs], dim=-1)
        tile = hiding(mask, like) if mask.dtype == torch.bool else mask.to(like.device, like.dtype)
        return tile.expand(-1, -1, piece.q_len, piece.k_len)


@dataclass(frozen=True)
class BiasTiles:
    """Biases from their rule, with a mask on top."""

    bias: Bias
    q_len: int
    k_len: int

    def tile(self, piece: Piece, like: Tensor) -> Tensor:
        """See ``Tiles``."""
        i, j = rows_and_keys(piece, like.device)
        bias = rule_file(self.bias.name, "bias").on(self.bias.parameters, i, j, self.q_len, self.k_len)
        tile = bias.to(like.dtype)[(None,) * (4 - bias.dim())]
        if self.bias.mask is None:
            return tile
        seen = asked(self.bias.mask, piece, (self.q_len, self.k_len), like.device)
        return tile.masked_fill(~seen, -math.inf)
