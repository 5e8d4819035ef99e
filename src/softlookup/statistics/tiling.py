"""One pass over the scores, in tiles that stay in the cache: a visitor looks at each, then it is overwritten.

A tile holds the scores of a block of queries of a few heads beside some hundred keys. Two buffers are
allocated once, whatever the lengths. Query heads that share a key/value head are rows of one product, so that
keys are never repeated, and the log-sum-exp is taken off by the product itself: one more feature of q beside
ones in k.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.statistics.reading import Scores
from softlookup.statistics.seen_keys import KeyRange

_ROWS = 256  # queries, times the heads that share a key, beside each other in a tile; twice in long sequences
_LONG = 2048
_ENTRIES = (
    1 << 20
)  # in a tile: large, since after each product the next lines of Python come from cold memory
_NO_WEIGHT = 1e30  # taken off the scores of a query without keys


class Block(NamedTuple):
    """Queries [q_start, q_stop) of some key/value heads, and the columns that any of them sees.

    sample: whose mask they follow; heads: which of the B * H_kv key/value heads
    groups: the same heads, counted from the first of the block, as they share a tile
    ranges: the keys that the queries see; columns: from the first of them to the last, see ``Tiling``
    """

    q_start: int
    q_stop: int
    sample: int
    heads: slice
    groups: tuple[slice, ...]
    ranges: tuple[KeyRange, ...]
    columns: slice
    width: int  # columns of a tile

    @property
    def queries(self) -> int:
        """How many queries."""
        return self.q_stop - self.q_start


class Sheet(NamedTuple):
    """Two buffers in the shape of a tile: [heads, group * queries, columns].

    steps: the second as [step, heads * group * queries * steps]: a step of columns lies along the first axis
    """

    scores: Tensor
    room: Tensor
    steps: Tensor


class Tile(NamedTuple):
    """Scores on a sheet, -inf where a key is hidden, and as much room for what comes of them.

    group: which of the block's groups of heads it holds
    """

    sheet: Sheet
    group: int
    columns: slice
    block: Block

    def by_query(self, entries: Tensor) -> Tensor:
        """Return a tensor of the tile's shape as [heads, group, queries, columns]."""
        return entries.view(entries.shape[0], -1, self.block.queries, entries.shape[-1])


class Visitor(Protocol):
    """What is done with the scores.

    hidden: what it finds in place of a hidden score: -inf, or what is as good
    """

    @property
    def hidden(self) -> float:
        """See above."""

    def begin(self, block: Block) -> None:
        """Prepare for the tiles of these queries."""

    def see(self, tile: Tile) -> None:
        """Look at one tile, and leave in it what you like."""

    def end(self, block: Block) -> None:
        """Finish these queries."""


@dataclass(frozen=True)
class Covering:
    """What a mask does to the scores of a tile, for all its heads.

    added: floats [1 or H, queries or 1, columns], or None
    ceilings: (columns, floats [1 or H, queries or 1, columns]): inf where a key is seen
    """

    added: Tensor | None
    ceilings: tuple[tuple[slice, Tensor], ...]

    def __bool__(self) -> bool:
        return bool(self.ceilings) or self.added is not None

    def put_on(self, tile: Tile, shared_by: int) -> None:
        """Add the bias, and hide the hidden keys. (Filling by a bool mask takes ten times as long.)"""
        heads = tile.block.groups[tile.group]
        scores = tile.by_query(tile.sheet.scores)
        if self.added is not None:
            scores.add_(of_heads(self.added, heads, shared_by))
        for columns, ceiling in self.ceilings:
            part = scores[..., columns]
            torch.minimum(part, of_heads(ceiling, heads, shared_by), out=part)


def of_heads(values: Tensor, heads: slice, shared_by: int) -> Tensor:
    """[1 or H, queries or 1, columns] -> [1 or heads, 1 or group, queries or 1, columns]."""
    if values.shape[0] == 1:
        return values[None]
    return torch.unflatten(values, 0, (-1, shared_by))[heads]


class Tiling:
    """Scores cut into tiles.

    keys: [B * H_kv, d + 1, columns]: column c is key c - lead of those at hand, with a one below it. Columns
    before the first and behind the last key are hidden: tiles begin and end at multiples of ``step``.
    """

    def __init__(self, scores: Scores, *, step: int) -> None:
        q, k = scores.q, scores.k
        self.scores, self.seen, self.step = scores, scores.seen, step
        self.lead = self.seen.shard.k_start % step
        self.batch, heads, self.q_len, width = q.shape
        self.kv_heads, self.k_len = k.shape[1:3]
        self.group = heads // self.kv_heads
        self.q = torch.unflatten(q, 1, (self.kv_heads, self.group)).flatten(0, 1)  # [B * H_kv, group, T_q, d]
        columns = math.ceil((self.lead + self.k_len) / step) * step
        keys = k.new_empty(self.batch * self.kv_heads, columns, width + 1, dtype=self.scores.dtype)
        keys[:, : self.lead] = keys[:, self.lead + self.k_len :] = 0
        keys[:, self.lead : self.lead + self.k_len, :width] = k.flatten(0, 1)
        keys[..., width] = 1
        self.keys = keys.transpose(1, 2)
        self._q_room = self.keys.new_empty(0)
        self._buffers = self.keys.new_empty(2, 0)
        self._sheets: dict[tuple[int, ...], Sheet] = {}

    def run(self, visitor: Visitor, lse: Tensor | None = None) -> None:
        """Show all tiles to a visitor, block by block of queries.

        lse: [B, H, T_q] taken off the scores; -inf for a query without keys
        """
        offsets = None
        if lse is not None:
            offsets = lse.masked_fill(lse == -math.inf, _NO_WEIGHT).view(self.q.shape[:-1])
        for block in self._blocks():
            self._show(visitor, block, offsets)

    def norms(self) -> tuple[Tensor, Tensor]:
        """Return the lengths of the scaled queries [B * H_kv, group, T_q] and of the keys [B * H_kv, T_k]."""
        dtype, norm = self.scores.dtype, torch.linalg.vector_norm
        keys = self.scores.k.flatten(0, 1)
        return norm(self.q, dim=-1, dtype=dtype) * abs(self.scores.scale), norm(keys, dim=-1, dtype=dtype)

    def _show(self, visitor: Visitor, block: Block, offsets: Tensor | None) -> None:
        """Show the tiles of one block."""
        visitor.begin(block)
        queries, keys = self._queries(block, offsets), self.keys[block.heads]
        q_groups = [queries[group] for group in block.groups]
        at_once = block.groups[0].stop if block.groups else 1
        for columns, common in self._columns(block):
            covering = self._covering(block, columns, common, visitor.hidden)
            if covering is None:
                continue
            width = columns.stop - columns.start
            k_groups = torch.split(keys.narrow(2, columns.start, width), at_once)
            for group, (q, k) in enumerate(zip(q_groups, k_groups, strict=True)):
                sheet = self._sheet(q.shape[0], q.shape[1], width)
                torch.bmm(q, k, out=sheet.scores)
                tile = Tile(sheet, group, columns, block)
                if covering:
                    covering.put_on(tile, self.group)
                visitor.see(tile)
        visitor.end(block)

    def _blocks(self) -> Iterator[Block]:
        """Yield blocks of queries; samples that share one mask are as good as more heads."""
        alike = self.seen.samples == self.seen.heads == 1
        at_once = max(1, self.batch) if alike else 1
        rows = max(16, _ROWS * (2 if self.k_len >= _LONG else 1) // self.group)
        for sample in range(0, max(1, self.batch), at_once):
            heads = slice(sample * self.kv_heads, min(sample + at_once, self.batch) * self.kv_heads)
            for q_start in range(0, max(1, self.q_len), rows):
                yield self._block(q_start, min(q_start + rows, self.q_len), sample, heads)

    def _block(self, q_start: int, q_stop: int, sample: int, heads: slice) -> Block:
        ranges = tuple(self.seen.ranges(sample, torch.arange(q_start, q_stop)))
        columns = slice(0, 0)
        if ranges:
            columns = slice(self._down(ranges[0].start), self._up(ranges[-1].stop))
        rows, number = max(1, self.group * (q_stop - q_start)), heads.stop - heads.start
        width = min(max(1, _ENTRIES // (rows * self.step)) * self.step, max(1, columns.stop - columns.start))
        at_once = max(1, _ENTRIES // (rows * width))
        groups = tuple(slice(head, min(head + at_once, number)) for head in range(0, number, at_once))
        return Block(q_start, q_stop, sample, heads, groups, ranges, columns, width)

    def _down(self, key: int) -> int:
        return (key + self.lead) // self.step * self.step

    def _up(self, key: int) -> int:
        return -(-(key + self.lead) // self.step) * self.step

    def _queries(self, block: Block, offsets: Tensor | None) -> Tensor:
        """[heads, group * queries, d + 1]: scaled, and last what is taken off the scores."""
        q = self.q[block.heads, :, block.q_start : block.q_stop]
        shape = (*q.shape[:-1], q.shape[-1] + 1)
        if len(self._q_room) < math.prod(shape):  # kept for all blocks: new pages cost time
            self._q_room = self.keys.new_empty(math.prod(shape))
        queries = self._q_room[: math.prod(shape)].view(shape)
        torch.mul(q.to(self.scores.dtype), self.scores.scale, out=queries[..., :-1])
        if offsets is None:
            queries[..., -1] = 0
        else:
            torch.neg(offsets[block.heads, :, block.q_start : block.q_stop], out=queries[..., -1])
        return queries.flatten(1, 2)

    def _columns(self, block: Block) -> Iterator[tuple[slice, slice]]:
        """Yield the columns of one tile after the other, and those that all queries see."""
        done = 0
        for keys in block.ranges:
            start, done = max(done, self._down(keys.start)), self._up(keys.stop)
            common = slice(keys.common_start + self.lead, keys.common_stop + self.lead)
            for first in range(start, done, block.width):
                yield slice(first, min(first + block.width, done)), common

    def _covering(self, block: Block, columns: slice, common: slice, hidden: float) -> Covering | None:
        """Return what the mask does to some columns, or None when no query of the block sees any of them."""
        width = columns.stop - columns.start
        low, high = (min(max(end - columns.start, 0), width) for end in (common.start, common.stop))
        parts = (slice(0, low), slice(high, width)) if low < high else (slice(0, width),)
        ceilings = []
        for part in parts:
            if part.start == part.stop:
                continue
            where = slice(columns.start + part.start, columns.start + part.stop)
            seen = self.of_mask(self.seen.allowed, False, block, where)
            assert seen is not None
            if low >= high and not seen.any():
                return None
            if not seen.all():
                ceiling = torch.full(seen.shape, math.inf, dtype=self.keys.dtype, device=seen.device)
                ceilings.append((part, ceiling.masked_fill_(~seen, hidden)))
        return Covering(self.of_mask(self.seen.added, 0.0, block, columns), tuple(ceilings))

    def of_mask(
        self, ask: Callable[..., Tensor | None], outside: Any, block: Block, columns: slice
    ) -> Tensor | None:
        """Ask a mask about columns: [1 or H, queries or 1, columns]; ``outside`` where there is no key."""
        keys = slice(max(columns.start - self.lead, 0), min(columns.stop - self.lead, self.k_len))
        answer = ask(block.sample, torch.arange(block.q_start, block.q_stop, device=self.keys.device), keys)
        if answer is None or keys.stop - keys.start == columns.stop - columns.start:
            return answer
        answer = answer.expand(-1, -1, keys.stop - keys.start)
        before = keys.start + self.lead - columns.start
        return pad(answer, (before, columns.stop - self.lead - keys.stop), value=outside)

    def _sheet(self, *shape: int) -> Sheet:
        """Return the two buffers in this shape: the same views each time, as making one costs time, too."""
        entries = math.prod(shape)
        if self._buffers.shape[1] < entries:
            self._buffers, self._sheets = self.keys.new_empty(2, entries), {}
        if shape not in self._sheets:
            scores, room = self._buffers[:, :entries]
            self._sheets[shape] = Sheet(scores.view(shape), room.view(shape), room.view(-1, self.step).t())
        return self._sheets[shape]
