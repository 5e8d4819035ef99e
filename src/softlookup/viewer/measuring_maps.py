"""All maps of a layer looked at once, some rows at a time: numbers of heads, small pictures, a pooled map."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from softlookup.statistics.pooled import bucket_widths
from softlookup.viewer.head_measures import MEASURES, LayerTokens, RowBlock, distance_tokens
from softlookup.viewer.map_layers import Explained, MapLayer, TensorLayer, refuse_invalid

SMALL = 32  # cells of a small picture on a side, at most
_CELLS_AT_ONCE = 1 << 21  # weights
_ROWS_AT_ONCE = 16  # at least: all keys are read anew for each block


@dataclass(eq=False)
class Measured:
    """What was seen of a layer.

    numbers: by name of a measure or number, [H]; NaN where it says nothing
    chance: by name of a measure, what a uniform map over the same visible keys would give, [H]
    small: [H, a, b] the largest weight of each block
    grid: how many queries and keys a cell of ``pooled`` and ``visible`` is of: (1, 1) is the map itself
    pooled: [H, a, b] the weight that a query of the block puts on the block's keys, on average; None where
        the map is held whole
    visible: [H or 1, a, b] uint8, 255: all pairs of the block may look, 0: none; None: unknown
    queries: how many of them were looked at
    on_hidden: the largest weight on a hidden key, with its head, row and key; None where there is none
    """

    numbers: dict[str, Tensor]
    chance: dict[str, Tensor]
    small: Tensor
    grid: tuple[int, int]
    pooled: Tensor | None
    visible: Tensor | None
    queries: int
    blind: int = 0
    on_hidden: tuple[float, int, int, int] | None = None


@dataclass(eq=False)
class _Sums:
    total: dict[str, Tensor] = field(default_factory=dict)
    count: dict[str, Tensor] = field(default_factory=dict)

    def add(self, name: str, values: Tensor) -> None:
        """Add [H, n] of some rows."""
        there = ~values.isnan()
        total = values.double().nan_to_num(0.0).sum(dim=-1)
        self.total[name] = self.total.get(name, 0) + total
        self.count[name] = self.count.get(name, 0) + there.sum(dim=-1)

    def means(self) -> dict[str, Tensor]:
        return {name: self.total[name] / self.count[name] for name in self.total}  # 0 / 0 is NaN


def measure_layer(
    layer: MapLayer,
    tokens: LayerTokens,
    buckets: tuple[int, int] | None,
    queries: Sequence[int],
    explained: Explained | None = None,
) -> Measured:
    """Look at some queries of a layer, once, in bounded memory.

    buckets: into how many the queries and the keys are pooled at most; None: the map is held whole elsewhere
    queries: which ones; all of them, or a sample that is spread over all

    Raises: SoftlookupError where a row is invalid.
    """
    numbers, chance = _Sums(), _Sums()
    small, pool = Grid(layer, (SMALL, SMALL)), Grid(layer, buckets or (layer.q_len, layer.k_len))
    pictures = torch.zeros(layer.num_heads, *small.shape)
    sums = torch.zeros(layer.num_heads, *pool.shape) if buckets else None
    seen: Tensor | None = None
    rows_of_bucket = torch.zeros(pool.shape[0])
    blind, on_hidden = 0, None
    for some in blocks_of(layer, queries):
        rows, allowed = layer.seen(some)
        refuse_invalid(layer, (rows, allowed), some, explained)
        block = _block(rows, allowed, some, tokens)
        _measure(block, numbers, chance)
        index = torch.tensor(some)
        small.take_largest(pictures, rows, index)
        at = index // pool.q_width
        rows_of_bucket.index_add_(0, at, torch.ones(len(some)))
        if sums is not None:
            sums.index_add_(1, at, pool.key_sums(rows))
        if allowed is not None:
            share = pool.key_sums(allowed.float()) / torch.tensor(pool.k_widths)
            seen = torch.zeros(len(share), *pool.shape) if seen is None else seen
            if len(seen) < len(share):  # the first rows were alike for all heads
                seen = seen.expand(len(share), -1, -1).clone()
            seen.index_add_(1, at, share)
            if isinstance(layer, TensorLayer):  # those of a recording are 0 there: computed so
                on_hidden = _worst(on_hidden, rows, allowed, some)
        blind += int((block.sums == 0).all(dim=0).sum())
    per_query = rows_of_bucket.clamp(min=1)[:, None]
    return Measured(
        numbers.means(),
        chance.means(),
        pictures,
        (pool.q_width, pool.k_width),
        None if sums is None else sums / per_query,
        None if seen is None else (seen / per_query * 255).ceil().to(torch.uint8),
        len(queries),
        blind,
        on_hidden,
    )


class Grid:
    """Cells over the maps of a layer, at most so many on a side: a cell is of some queries and some keys."""

    def __init__(self, layer: MapLayer, most: tuple[int, int]) -> None:
        q_widths, self.k_widths = bucket_widths(layer.q_len, most[0]), bucket_widths(layer.k_len, most[1])
        self.q_width, self.k_width = q_widths[0], self.k_widths[0]
        self.shape = (len(q_widths), len(self.k_widths))

    def take_largest(self, cells: Tensor, rows: Tensor, queries: Tensor) -> None:
        """Raise cells [H, a, b] to the largest weight that some rows [H, n, T_k] have there."""
        most = _padded(rows, self.k_width).amax(dim=-1)  # [H, n, b]
        index = (queries // self.q_width)[None, :, None].expand_as(most)
        cells.scatter_reduce_(1, index, most, "amax")

    def key_sums(self, rows: Tensor) -> Tensor:
        """Return [H, n, b]: rows summed over the keys of each bucket."""
        return rows if self.k_width == 1 else _padded(rows, self.k_width).sum(dim=-1)


def _padded(rows: Tensor, width: int) -> Tensor:
    """Return [H, n, buckets, width], with zeros where the last bucket ends early."""
    missing = -rows.shape[-1] % width
    padded = torch.nn.functional.pad(rows, (0, missing)) if missing else rows
    return padded.reshape(*padded.shape[:-1], -1, width)


def blocks_of(layer: MapLayer, queries: Sequence[int]) -> Iterator[Sequence[int]]:
    """Yield the queries, some at a time: their rows of all heads take little memory."""
    at_once = max(_ROWS_AT_ONCE, _CELLS_AT_ONCE // (layer.num_heads * layer.k_len))
    for start in range(0, len(queries), at_once):
        yield queries[start : start + at_once]


def _block(rows: Tensor, allowed: Tensor | None, queries: Sequence[int], tokens: LayerTokens) -> RowBlock:
    visible = torch.ones(1, *rows.shape[1:], dtype=torch.bool) if allowed is None else allowed
    own = None if tokens.offset is None else torch.tensor(queries) + tokens.offset
    return RowBlock(rows, visible, own, tokens.numbers, tokens.separators)


def _measure(block: RowBlock, numbers: _Sums, chance: _Sums) -> None:
    numbers.add("entropy_nats", block.entropy_nats)
    numbers.add("distance_tokens", distance_tokens(block))
    uniform = block.uniform()
    for measure in MEASURES:
        values = measure.of(block)
        numbers.add(measure.name, values)
        # Over the same rows: NaN of the head stays NaN.
        chance.add(measure.name, measure.of(uniform).expand_as(values).masked_fill(values.isnan(), math.nan))


def _worst(
    before: tuple[float, int, int, int] | None, rows: Tensor, allowed: Tensor, queries: Sequence[int]
) -> tuple[float, int, int, int] | None:
    """Return the largest weight on a hidden key so far, with head, query and key."""
    hidden = rows.masked_fill(allowed, 0.0)
    most = float(hidden.max())
    if most <= (before[0] if before else 0.0):
        return before
    head, row, key = (int(it) for it in (hidden == most).nonzero()[0])
    return most, head, queries[row], key
