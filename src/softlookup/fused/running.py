"""A plan carried out: every piece one fused call, pieces of the same query merged, gradients added up.

Merging: over two sets of keys with log-sum-exps a and b, l = log(e^a + e^b), the output is
e^(a - l) * output_a + e^(b - l) * output_b. Source: Milakov and Gimelshein 2018, arXiv 1805.02867.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import accumulate

import torch
from torch import Tensor

from softlookup.fused.fused_kernel import Call, look_up, look_up_backward
from softlookup.fused.pieces import Piece, Plan


def run(q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float) -> tuple[Tensor, Tensor]:
    """Return output [B, H, T_q, d] and log-sum-exp [B, H, T_q]; 0 and -inf for a query without keys.

    q: [B, H, T_q, d]   k, v: [B, H_kv, T_k, d]
    """
    B, H, q_len, d = q.shape
    if plan.is_one_call(B):
        piece = plan.pieces[0]
        output, lse = look_up(*_inputs(q, k, v, piece), _call(piece, plan, q, scale))
        return _side_by_side(output, piece), _side_by_side(lse, piece)
    output = q.new_empty(B, q_len, H, d).transpose(1, 2)  # as the kernel lays it out: copies run straight on
    if not plan.covers(B):
        output.zero_()
    lse = torch.full(q.shape[:-1], -math.inf, dtype=lse_dtype(q), device=q.device)
    for piece, again in _one_by_one(zip(plan.pieces, plan.seen_before, strict=True), B):
        found, found_lse = look_up(*_inputs(q, k, v, piece), _call(piece, plan, q, scale))
        found, found_lse = (_unfolded(x, piece) for x in (found, found_lse[..., None]))
        _add_rows(output, lse[..., None], piece, (found, found_lse), again)
    return output, lse


def run_backward(
    grad: Tensor,
    tensors: tuple[Tensor, Tensor, Tensor],
    output: Tensor,
    lse: Tensor,
    plan: Plan,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v."""
    q, k, v = tensors

    def of_piece(piece: Piece) -> tuple[Tensor, Tensor, Tensor]:
        grad_rows, output_rows, lse_rows = (_queries(x, piece) for x in (grad, output, lse[..., None]))
        call = _call(piece, plan, q, scale)
        return look_up_backward(grad_rows, _inputs(q, k, v, piece), output_rows, lse_rows[..., 0], call)

    if plan.is_one_call(len(q)) and plan.takes_all_keys:
        piece = plan.pieces[0]
        dq, dk, dv = of_piece(piece)
        return _side_by_side(dq, piece), _side_by_side(dk, piece), _side_by_side(dv, piece)
    grads = tuple(torch.zeros(x.shape, dtype=x.dtype, device=x.device) for x in tensors)
    for piece, _ in _one_by_one(((piece, False) for piece in plan.pieces), len(q)):
        parts = of_piece(piece)
        _add_queries(grads[0], piece, _unfolded(parts[0], piece))
        for total, part in zip(grads[1:], parts[1:], strict=True):
            _add_keys(total, piece, _unfolded(part, piece))
    return grads[0], grads[1], grads[2]


def _one_by_one(pieces: Iterable[tuple[Piece, bool]], batch: int) -> Iterator[tuple[Piece, bool]]:
    """Folded pieces are views of one sample; of several samples at once they would be copies."""
    for piece, again in pieces:
        samples = piece.samples_of(batch)
        if piece.count == 1 or len(samples) == 1:
            yield piece, again
        else:
            yield from ((replace(piece, samples=(sample,)), again) for sample in samples)


def lse_dtype(q: Tensor) -> torch.dtype:
    """The kernel keeps log-sum-exps in float32, or in float64 for float64."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _call(piece: Piece, plan: Plan, q: Tensor, scale: float) -> Call:
    if piece.shape != "tile" or plan.tiles is None:
        return Call(scale, causal=piece.shape == "triangle", mirrored=piece.shape == "mirrored")
    tile = plan.tiles.tile(piece, q)
    if piece.count > 1 and tile.shape[0] > 1:
        tile = tile.repeat_interleave(piece.count, dim=0)
    return Call(scale, tile=tile)


def _inputs(q: Tensor, k: Tensor, v: Tensor, piece: Piece) -> tuple[Tensor, Tensor, Tensor]:
    return _queries(q, piece), _keys(k, piece), _keys(v, piece)


def _of_samples(x: Tensor, samples: tuple[int, ...] | None) -> Tensor:
    """Return a view where the samples are neighbours, else a copy: see ``_put_back``."""
    if samples is None:
        return x
    if _neighbours(samples):
        return x[samples[0] : samples[-1] + 1]
    return x[list(samples)]


def _put_back(total: Tensor, samples: tuple[int, ...] | None, rows: Tensor) -> None:
    if samples is not None and not _neighbours(samples):
        total[list(samples)] = rows


def _neighbours(samples: tuple[int, ...]) -> bool:
    return samples[-1] - samples[0] + 1 == len(samples)


def _windows(x: Tensor, start: int, length: int, count: int, step: int) -> Tensor:
    """[B, H, T, d] -> view [B, count, H, length, d] of stretches that start ``step`` apart."""
    if count == 1:
        return x[:, None, :, start : start + length]
    stretch = x[:, :, start : start + (count - 1) * step + length]
    return stretch.unfold(2, length, step).permute(0, 2, 1, 4, 3)  # unfold: [B, H, count, d, length]


def _queries(x: Tensor, piece: Piece) -> Tensor:
    """[B, H, T_q, d] -> [B * count, H, q_len, d]."""
    x = _of_samples(x, piece.samples)
    return _windows(x, piece.q_start, piece.q_len, piece.count, piece.q_step).flatten(0, 1)


def _keys(x: Tensor, piece: Piece) -> Tensor:
    """[B, H_kv, T_k, d] -> [B * count, H_kv, k_len, d]."""
    x = _of_samples(x, piece.samples)
    parts = [_windows(x, start, stop - start, piece.count, piece.k_step) for start, stop in piece.runs]
    return (parts[0] if len(parts) == 1 else torch.cat(parts, dim=3)).flatten(0, 1)


def _side_by_side(x: Tensor, piece: Piece) -> Tensor:
    """[B * count, H, T, ...] -> [B, H, count * T, ...], a view of what the kernel returned."""
    return x if piece.count == 1 else _unfolded(x, piece).transpose(1, 2).flatten(2, 3)


def _unfolded(x: Tensor, piece: Piece) -> Tensor:
    """[B * count, H, T, d] -> [B, count, H, T, d]."""
    return torch.unflatten(x, 0, (-1, piece.count))


def _add_rows(output: Tensor, lse: Tensor, piece: Piece, found: tuple[Tensor, Tensor], again: bool) -> None:
    """Write what a piece found into its queries' rows, or merge it with what is there."""
    rows = [_of_samples(x, piece.samples) for x in (output, lse)]
    old, old_lse = (_windows(x, piece.q_start, piece.q_len, piece.count, piece.q_step) for x in rows)
    new, new_lse = found
    if again:
        both = torch.logaddexp(old_lse, new_lse)
        # Two empty sides: -inf - -inf is nan, and both shares are 0.
        kept, added = ((side - both).exp().nan_to_num(0.0).to(new.dtype) for side in (old_lse, new_lse))
        old.mul_(kept).addcmul_(new, added)
        old_lse.copy_(both)
    else:
        old.copy_(new)
        old_lse.copy_(new_lse)
    for total, part in zip((output, lse), rows, strict=True):
        _put_back(total, piece.samples, part)


def _add_queries(total: Tensor, piece: Piece, part: Tensor) -> None:
    rows = _of_samples(total, piece.samples)
    _windows(rows, piece.q_start, piece.q_len, piece.count, piece.q_step).add_(part)
    _put_back(total, piece.samples, rows)


def _add_keys(total: Tensor, piece: Piece, part: Tensor) -> None:
    rows = _of_samples(total, piece.samples)
    lengths = [stop - start for start, stop in piece.runs]
    for (start, stop), end in zip(piece.runs, accumulate(lengths), strict=True):
        share = part[:, :, :, end - (stop - start) : end]
        # Windows that overlap are added in turns, so that no place is written twice in one addition.
        turns = math.ceil((stop - start) / piece.k_step) if piece.count > 1 else 1
        for turn in range(min(turns, piece.count)):
            count = len(range(turn, piece.count, turns))
            place = _windows(rows, start + turn * piece.k_step, stop - start, count, turns * piece.k_step)
            place.add_(share[:, turn::turns])
    _put_back(total, piece.samples, rows)
