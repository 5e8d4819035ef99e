"""One call of attention that was recorded: its weights and scores, computed for the rows that are asked for.

Kept are q, k, v and the head outputs, each T x d. Of attention that a model writes by hand, its scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.live.problem import Problem
from softlookup.live.record import Call
from softlookup.masks.accept import whole_number, whole_numbers
from softlookup.statistics.pooled import bucket_widths
from softlookup.terms import SoftlookupError

_AT_ONCE = 1 << 22  # scores that are computed together: 16 MiB


@dataclass(frozen=True, eq=False)
class RecordedCall:
    """One call of attention: layer, sizes, and its maps on demand.

    call: where it was and how large, e.g. ``call.layer``, ``call.q_len``
    values: [B, H_kv, T_k, d_v]; None where the way of computing does not show them
    outputs: [B, H, T_q, d_v] what each head found, before the heads merge; None where it does not show
    """

    call: Call
    values: Tensor | None = field(repr=False)
    outputs: Tensor | None = field(repr=False)
    _problem: Problem = field(repr=False)

    def weights(
        self,
        sample: int = 0,
        heads: Sequence[int] | None = None,
        queries: Sequence[int] | None = None,
        *,
        dtype: torch.dtype = torch.float32,
    ) -> Tensor:
        """Return the weights of some heads and queries of one sample: [heads, queries, T_k].

        heads, queries: which ones, in this order; None: all
        dtype: in which they are handed out; they are computed in float32, or float64 for a float64 model

        A row sums to 1, or to less where the model has sinks, which take the rest. Hidden keys are exactly
        0, and so is a query without keys.

        Raises: SoftlookupError when there is no such sample, head or query.
        """
        return torch.cat([w.to(dtype) for _, w in self._pieces(sample, heads, queries, _shares)], dim=1)

    def scores(
        self, sample: int = 0, heads: Sequence[int] | None = None, queries: Sequence[int] | None = None
    ) -> Tensor:
        """Return what the softmax was given: float32 [heads, queries, T_k], -inf where a key is hidden.

        Raises: as ``weights``.
        """
        return torch.cat([s.float() for _, s in self._pieces(sample, heads, queries, _visible_scores)], dim=1)

    def allowed(
        self, sample: int = 0, heads: Sequence[int] | None = None, queries: Sequence[int] | None = None
    ) -> Tensor:
        """Return who may look at whom: bool [heads, queries, T_k].

        Raises: as ``weights``.
        """
        return torch.cat([a for _, a in self._pieces(sample, heads, queries, _visibility)], dim=1)

    def pooled(self, query_buckets: int, key_buckets: int, sample: int = 0) -> Tensor:
        """Return the map in buckets of equally many positions: float32 [H, a, b], means of the weights.

        query_buckets, key_buckets: at most so many; ``softlookup.statistics.pooled.bucket_widths`` says how
            wide they are, the last may be narrower

        No more of the map is held at once than some queries of it.

        Raises: SoftlookupError when there is no such sample, or a number is not at least 1.
        """
        along_q = self._widths("query_buckets", query_buckets, self.call.q_len)
        along_k = self._widths("key_buckets", key_buckets, self.call.k_len)
        sums = torch.zeros(self.call.num_heads, len(along_q), len(along_k), device=self._problem.device)
        for rows, weights in self._pieces(sample, None, None, _shares):
            by_keys = torch.stack(
                [it.sum(dim=-1) for it in torch.split(weights, list(along_k), dim=-1)], dim=-1
            )
            sums.index_add_(1, rows // along_q[0], by_keys.float())  # [H, n, b] onto [H, a, b]
        areas = torch.tensor(along_q)[:, None] * torch.tensor(along_k)
        return sums / areas.to(sums.device)

    def _widths(self, name: str, buckets: int, length: int) -> tuple[int, ...]:
        return bucket_widths(length, whole_number(name, buckets, at_least=1))

    def _pieces(
        self,
        sample: int,
        heads: Sequence[int] | None,
        queries: Sequence[int] | None,
        made_of: Callable[[Tensor, Tensor], Tensor],
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield queries [n] and what is made of their scores [heads, n, T_k], some queries at a time."""
        call = self.call
        self._below("sample", [whole_number("sample", sample, at_least=0)], call.batch_size)
        some_heads = self._chosen("heads", heads, call.num_heads)
        rows = torch.tensor(self._chosen("queries", queries, call.q_len), dtype=torch.int64)
        at_once = max(16, _AT_ONCE // (call.num_heads * call.k_len))  # all keys are read for each piece
        for piece in torch.split(rows.to(self._problem.device), at_once):
            with torch.no_grad(), torch.autocast(piece.device.type, enabled=False):
                scores, allowed = self._problem.rows(sample, piece)
                found = made_of(scores[some_heads], _of_heads(allowed, scores, some_heads))
                found = found[..., : call.k_len]
                yield piece, pad(found, (0, call.k_len - found.shape[-1]), value=_NOTHING[made_of])

    def _chosen(self, name: str, given: Sequence[int] | None, size: int) -> list[int]:
        if given is None:
            return list(range(size))
        return self._below(name, list(whole_numbers(name, given)), size)

    def _below(self, name: str, numbers: list[int], size: int) -> list[int]:
        for number in numbers:
            if number >= size:
                raise SoftlookupError(
                    f"{self.call.layer or 'the model'}: there is no such one among the {name.rstrip('s')}s.",
                    expected=f"0 to {size - 1}",
                    got=str(number),
                    sizes={
                        "B": self.call.batch_size,
                        "H": self.call.num_heads,
                        "T_q": self.call.q_len,
                        "T_k": self.call.k_len,
                    },
                )
        return numbers


def _of_heads(allowed: Tensor, scores: Tensor, heads: list[int]) -> Tensor:
    return allowed.expand_as(scores)[heads]


def _visible_scores(scores: Tensor, allowed: Tensor) -> Tensor:
    return scores.masked_fill(~allowed, -math.inf)


def _shares(scores: Tensor, allowed: Tensor) -> Tensor:
    """[H, n, keys and sinks]: the softmax, zeros where there is no key."""
    weights = scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~allowed, 0.0)


def _visibility(scores: Tensor, allowed: Tensor) -> Tensor:
    return allowed


#: What is said of keys at the end that no query sees, and that were left out.
_NOTHING: dict[Callable[[Tensor, Tensor], Tensor], float] = {
    _visible_scores: -math.inf,
    _shares: 0.0,
    _visibility: False,
}
