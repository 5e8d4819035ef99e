"""What a pass over the scores has to know of a mask: which keys queries see, and what is added to scores.

A mask with spans says by two comparisons which keys of a block everybody sees, so that only the rim of a
block is masked at all; any other mask is asked block by block. No answer is larger than the block.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from softlookup.masks import Bias, Mask
from softlookup.masks.discover import rule_file
from softlookup.masks.spans import Spans, spans_of

_ROWS_AT_ONCE = 256  # num_visible asks for so many queries at a time


class Shard(NamedTuple):
    """Where the first query and key at hand stand in the whole sequence, and how long that is."""

    q_start: int
    k_start: int
    q_total: int
    k_total: int


class KeyRange(NamedTuple):
    """Keys [start, stop) that some query of a block sees; all its queries see [common_start, common_stop)."""

    start: int
    stop: int
    common_start: int
    common_stop: int


@dataclass(frozen=True)
class SeenKeys:
    """A mask, asked about the queries [q_len] and keys [k_len] at hand, which may be a shard of more.

    mask: nothing, a ``Mask``, a ``Bias``, or floats [B or 1, H or 1, T_q or 1, T_k or 1] that are added
    spans: what is visible as intervals [layers, B or 1, q_len], where it can be told so
    """

    mask: Mask | Bias | Tensor | None
    q_len: int
    k_len: int
    shard: Shard
    device: torch.device
    spans: Spans | None

    @staticmethod
    def of(
        mask: Mask | Bias | Tensor | None,
        q_len: int,
        k_len: int,
        *,
        device: torch.device,
        shard: Shard | None = None,
    ) -> SeenKeys:
        """Read a mask.

        Raises: SoftlookupError when it does not fit the lengths.
        """
        shard = shard or Shard(0, 0, q_len, k_len)
        hides = mask.mask if isinstance(mask, Bias) else mask
        spans = None if isinstance(hides, Tensor) else spans_of(hides, shard.q_total, shard.k_total)
        if spans is not None:
            rows = slice(shard.q_start, shard.q_start + q_len)
            first, stop = (
                (end[..., rows] - shard.k_start).clamp(0, k_len) for end in (spans.first, spans.stop)
            )
            spans = Spans(first, stop, k_len)
        return SeenKeys(mask, q_len, k_len, shard, device, spans)

    @property
    def samples(self) -> int:
        """How many samples of the batch differ: B, or 1 when all see the same."""
        return self._size("B")

    @property
    def heads(self) -> int:
        """How many heads differ: H, or 1."""
        return self._size("H")

    def _size(self, axis: str) -> int:
        if isinstance(self.mask, Tensor):
            return self.mask.shape["BH".index(axis)]
        return 1 if self.mask is None else self.mask.sizes[axis] or 1

    def ranges(self, sample: int, rows: Tensor) -> Iterator[KeyRange]:
        """Yield the keys that these queries have to look at, in order and disjoint.

        rows: int64 [n] queries at hand
        """
        if self.spans is None:
            yield KeyRange(0, self.k_len, 0, 0)
            return
        found: list[KeyRange] = []
        all_first, all_stop = self._ends(sample, rows)
        sees_any = (all_stop > all_first).any(dim=0)  # a query without keys has no say in what is common
        for first, stop in zip(all_first, all_stop, strict=True):
            sees = stop > first
            if not sees.any():
                continue
            alike = torch.equal(sees, sees_any)  # otherwise some query sees keys elsewhere, and none here
            first, stop = first[sees], stop[sees]
            start, end, low, high = torch.stack([first.min(), stop.max(), first.max(), stop.min()]).tolist()
            if found and start < found[-1].stop:  # second intervals begin before the last of the first ends
                found[-1] = KeyRange(found[-1].start, max(end, found[-1].stop), 0, 0)
            else:
                found.append(KeyRange(start, end, low, max(low, high) if alike else low))
        yield from found

    def allowed(self, sample: int, rows: Tensor, keys: slice) -> Tensor:
        """Return bool [1 or H, n or 1, keys], True = this query sees this key.

        rows: int64 [n] queries at hand; keys: which of the keys at hand
        """
        if self.spans is not None:
            first, stop = (end[..., None].int() for end in self._ends(sample, rows))  # [layers, n, 1]
            j = torch.arange(keys.start, keys.stop, dtype=torch.int32)  # compared in half the time of int64
            seen = (j >= first) & (j < stop)
            return (seen if len(seen) == 1 else seen.any(dim=0, keepdim=True)).to(self.device)
        if isinstance(self.mask, Tensor):
            return self._cut(self.mask, sample, rows, keys) != -math.inf
        hides = self.mask.mask if isinstance(self.mask, Bias) else self.mask
        assert hides is not None  # where nothing hides, there are spans
        i, j = self._positions(rows, keys)
        return _of_sample(hides._on(i, j, self.shard.q_total, self.shard.k_total), sample)

    @property
    def adds(self) -> bool:
        """Whether anything is added to the scores."""
        return isinstance(self.mask, (Tensor, Bias))

    def added(self, sample: int, rows: Tensor, keys: slice) -> Tensor | None:
        """Return floats [1 or H, n or 1, keys] that are added to the scaled scores, or None."""
        if isinstance(self.mask, Tensor):
            return self._cut(self.mask, sample, rows, keys)
        if not isinstance(self.mask, Bias):
            return None
        i, j = self._positions(rows, keys)
        rule = rule_file(self.mask.name, "bias")
        return _of_sample(rule.on(self.mask.parameters, i, j, self.shard.q_total, self.shard.k_total), sample)

    def num_visible(self) -> Tensor:
        """Return how many keys each query sees: int64 [B or 1, H or 1, T_q]."""
        if self.spans is not None:
            return self.spans.counts()[:, None].to(self.device)
        counts = torch.zeros(self.samples, self.heads, self.q_len, dtype=torch.int64, device=self.device)
        for sample in range(self.samples):
            for rows in torch.split(torch.arange(self.q_len, device=self.device), _ROWS_AT_ONCE):
                seen = self.allowed(sample, rows, slice(0, self.k_len))
                counts[sample, :, rows] = seen.expand(-1, -1, self.k_len).sum(dim=-1)
        return counts

    def query_positions(self) -> Tensor:
        """Return where each query stands among all keys: int64 [T_q].

        Key i for query i, unless a rule of the mask counts from the last key.
        """
        i = torch.arange(self.q_len, device=self.device) + self.shard.q_start
        return i + (self.shard.k_total - self.shard.q_total) * _counts_from_the_last_key(self.mask)

    def _ends(self, sample: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The intervals of some queries of one sample: first and stop [layers, n]."""
        assert self.spans is not None
        row = sample if self.spans.first.shape[1] > 1 else 0
        rows = rows.cpu()
        return self.spans.first[:, row, rows], self.spans.stop[:, row, rows]

    def _positions(self, rows: Tensor, keys: slice) -> tuple[Tensor, Tensor]:
        """[n, 1] and [1, keys]: where they stand in the whole sequence."""
        j = torch.arange(keys.start, keys.stop, device=self.device)
        return (rows + self.shard.q_start)[:, None], (j + self.shard.k_start)[None]

    def _cut(self, mask: Tensor, sample: int, rows: Tensor, keys: slice) -> Tensor:
        if mask.shape[-2] > 1:
            mask = mask[..., rows, :]
        if mask.shape[-1] > 1:
            mask = mask[..., keys]
        return _of_sample(mask, sample)


def _of_sample(answer: Tensor, sample: int) -> Tensor:
    """[..., B or 1, H or 1, n or 1, k or 1] -> [1 or H, n or 1, k or 1] of one sample."""
    answer = answer[(None,) * (4 - answer.dim())]
    return answer[sample if answer.shape[0] > 1 else 0]


def _counts_from_the_last_key(mask: Mask | Bias | Tensor | None) -> bool:
    if isinstance(mask, Bias):
        return mask.parameters.get("corner") == "bottom-right" or _counts_from_the_last_key(mask.mask)
    leaves = mask.leaves() if isinstance(mask, Mask) else ()
    return any(
        getattr(leaf, "name", "") == "causal_bottom_right"
        or getattr(leaf, "parameters", {}).get("corner") == "bottom-right"
        for leaf in leaves
    )
