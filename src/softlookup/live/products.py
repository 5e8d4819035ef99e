"""A call of attention as it was made: q, k, v and masks, through which gradients flow, and its steps.

A ``Problem`` is what can be measured of a call, detached; here are the tensors of the call themselves, so
that some of its rows can be computed in another way and take the place of what the call found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from softlookup.conventions.tensors import HIDES
from softlookup.fused.folding import as_autocast, four_axes, structure_or_tensor
from softlookup.statistics.reading import read_seen
from softlookup.terms import MaskLike


class Part(NamedTuple):
    """Some rows of the maps of a call: samples, heads and queries, int64 [S], [h], [n], all with all."""

    samples: Tensor
    heads: Tensor
    queries: Tensor

    def rows(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return what picks these rows out of a tensor [B, H, T_q, ...]."""
        return self.samples[:, None, None], self.heads[:, None], self.queries


@dataclass(frozen=True, eq=False)
class Products:
    """A call that multiplies queries with keys.

    q: [B, H, T_q, d_head]   k: [B, H_kv, T_k, d_head]   v: [B, H_kv, T_k, d_v]
    mask: as ``attend`` takes it;  scale: 1/sqrt(d_head) if None;  dropout_p: share of the weights dropped
    score_mod, mask_mod: of flex_attention, functions of single positions
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | MaskLike | None = None
    scale: float | None = None
    dropout_p: float = 0.0
    score_mod: Callable[..., Tensor] | None = None
    mask_mod: Callable[..., Tensor] | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """B, H, H_kv, T_q, T_k."""
        (batch, heads, q_len, _), (samples, kv_heads, k_len, _) = (
            four_axes(self.q).shape,
            four_axes(self.k).shape,
        )
        return max(batch, samples), heads, kv_heads, q_len, k_len  # learned queries come once for all samples

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.q.device

    def scores(self, part: Part) -> tuple[Tensor, Tensor]:
        """Return scores [S, h, n, T_k], scaled and with what is added to them, and who sees whom: bool.

        They are in float32, in float64 for float64. A hidden score may hold anything.
        """
        q, k = (self._wide(four_axes(it)) for it in as_autocast(self.q, self.k))
        scale = 1 / math.sqrt(q.shape[-1]) if self.scale is None else self.scale
        rows = q[part.rows()]  # [S, h, n, d_head]
        scores = (rows * scale) @ self._of_heads(k, part).transpose(-2, -1)  # [S, h, n, T_k]
        scores, allowed = self._with_mask(scores, part)
        if self.score_mod is not None:
            scores = _asked(self.score_mod, part, scores.shape[-1], scores)
            allowed = allowed & ~(scores <= HIDES)
        if self.mask_mod is not None:
            allowed = allowed & _asked(self.mask_mod, part, scores.shape[-1])
        return scores, allowed

    def mixed(self, weights: Tensor, part: Part) -> Tensor:
        """Return the values in these shares: [S, h, n, T_k] -> [S, h, n, d_v]."""
        (v,) = as_autocast(self.v)
        return weights @ self._of_heads(four_axes(v).to(weights.dtype), part)

    def _wide(self, x: Tensor) -> Tensor:
        x = x.expand(self.sizes[0], -1, -1, -1)
        return x if x.dtype == torch.float64 else x.float()

    def _of_heads(self, x: Tensor, part: Part) -> Tensor:
        """[B, H_kv, T_k, d] -> [S, h, T_k, d]: the keys or values of these heads."""
        _, heads, kv_heads, _, _ = self.sizes
        return x[part.samples[:, None], part.heads * kv_heads // heads]

    def _with_mask(self, scores: Tensor, part: Part) -> tuple[Tensor, Tensor]:
        batch, heads, _, q_len, k_len = self.sizes
        q = self.q.expand(batch, -1, -1, -1) if self.q.dim() == 4 else self.q
        read = structure_or_tensor(self.mask, q, self.k)
        if isinstance(read, Tensor) and read.is_floating_point():  # it may have a gradient
            added = read.expand(batch, heads, q_len, k_len)[part.rows()]
            hides = added <= HIDES  # the lowest finite number hides as -inf does
            return scores + added.to(scores.dtype).masked_fill(hides, 0.0), ~hides
        seen, keys = read_seen(q, self.k, self.mask), slice(0, k_len)
        answers = [self._answer(seen.allowed(b, part.queries, keys), part) for b in part.samples.tolist()]
        allowed = torch.stack(answers).expand(scores.shape)
        if not seen.adds:
            return scores, allowed
        biases = [self._answer(seen.added(b, part.queries, keys), part) for b in part.samples.tolist()]
        bias = torch.stack(biases)
        return scores + bias.masked_fill(bias <= HIDES, 0.0), allowed & ~(bias <= HIDES)

    def _answer(self, of_sample: Tensor | None, part: Part) -> Tensor:
        """[1 or H, n or 1, T_k] -> [1 or h, n, T_k]."""
        assert of_sample is not None
        chosen = of_sample if len(of_sample) == 1 else of_sample[part.heads]
        return chosen.expand(len(part.heads), len(part.queries), -1)


def _asked(mod: Callable[..., Tensor], part: Part, k_len: int, scores: Tensor | None = None) -> Tensor:
    """Return what a function of single positions says everywhere: [S, h, n, T_k]."""
    first: Sequence[int] = () if scores is None else (0,)
    along = [(None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)]
    for places in along:  # keys, queries, heads, samples
        mod = torch.vmap(mod, in_dims=(*first, *places))
    keys = torch.arange(k_len, device=part.heads.device)
    return mod(*(() if scores is None else (scores,)), *part, keys)


@dataclass(frozen=True, eq=False)
class Written:
    """A call that a model wrote by hand, at its softmax.

    scores: [B, H, T_q, T_k] what is known before the softmax, masks added to it already
    sinks: [B, H, T_q, 1] a score of each query beside those of the keys, or None
    weights: what the softmax made of them, as the model has it: of its own axes, and with a column for sinks
    """

    scores: Tensor
    weights: Tensor
    sinks: Tensor | None = None

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """B, H, H_kv, T_q, T_k."""
        batch, heads, q_len, k_len = self.scores.shape
        return batch, heads, heads, q_len, k_len

    @property
    def device(self) -> torch.device:
        """Where the tensors are."""
        return self.scores.device

    def rows(self, part: Part) -> tuple[Tensor, Tensor]:
        """Return scores [S, h, n, T_k], float32 or float64, and who sees whom."""
        found = self.scores[part.rows()]
        found = found if found.dtype == torch.float64 else found.float()
        return found, ~(found <= HIDES)  # NaN is a visible score
