"""A plan from spans: the visible keys of each query as intervals, cut into pieces.

Along the queries both ends of an interval stand still or move on by one: that makes a rectangle, a triangle
or a band, and covers causal, windows, padding, prefixes, chunks, packed documents and what ``&``, ``|`` and
``~`` make of them. Two cuts are tried, along such stretches and into blocks of rows, and the cheaper one is
taken; so for samples that differ, one after the other or all together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softlookup.fused.pieces import Piece, Plan, cost_of
from softlookup.fused.tiles import SpanTiles
from softlookup.masks.spans import Spans

ROWS = 128  # queries in one block of a tile
_FEW_ROWS = 64  # a triangle of so few rows, beside other keys, is no call of its own
_WIDE = 1024  # from here on a band is cut into rectangles and triangles, without a mask


class Stretch(NamedTuple):
    """Rows [start, stop) in which each end of the interval stands still (0) or moves by one (1), or None."""

    start: int
    stop: int
    slopes: tuple[int, int] | None


def plan_of_spans(spans: Spans, q_len: int, *, batch: int, heads: int) -> Plan:
    """Return the cheapest plan for visible keys given as intervals.

    spans: first and stop [layers, B or 1, T_q]
    """
    if q_len == 0:
        return Plan((), None, q_len, spans.k_len, "no queries")
    groups = list(_equal_samples(spans))
    pieces = [piece for samples, rows in groups for piece in _cheaper_cut(rows, samples, batch, heads)]
    reason = _reason(groups, pieces)
    tiles = SpanTiles(spans)
    one_by_one = Plan(tuple(pieces), tiles, q_len, spans.k_len, reason)
    if len(groups) == 1:
        return one_by_one
    together = Plan(
        tuple(_row_blocks(spans, None)), tiles, q_len, spans.k_len, "all samples together, block by block"
    )
    return min(one_by_one, together, key=lambda plan: cost_of(plan.pieces, batch, heads))


def _equal_samples(spans: Spans) -> Iterator[tuple[tuple[int, ...] | None, Spans]]:
    """Yield the samples that see the same keys, and their spans with a single row for the batch."""
    if spans.first.shape[1] == 1:
        yield None, spans
        return
    rows = torch.stack((spans.first, spans.stop)).transpose(0, 2).flatten(1)  # [B, layers * 2 * T_q]
    _, group = torch.unique(rows, dim=0, return_inverse=True)
    for number in range(int(group.max()) + 1):
        samples = tuple((group == number).nonzero()[:, 0].tolist())
        one = slice(samples[0], samples[0] + 1)
        alone = Spans(spans.first[:, one], spans.stop[:, one], spans.k_len)
        yield (None if len(samples) == len(group) else samples), alone


def _cheaper_cut(spans: Spans, samples: tuple[int, ...] | None, batch: int, heads: int) -> tuple[Piece, ...]:
    by_stretches = [
        replace(piece, samples=samples)
        for layer in range(spans.first.shape[0])
        for piece in _fold(_rested(_stretch_pieces(spans.first[layer, 0], spans.stop[layer, 0], layer)))
    ]
    cuts = tuple(by_stretches), tuple(_row_blocks(spans, samples))
    return min(cuts, key=lambda pieces: cost_of(pieces, batch, heads))


def stretches(first: Tensor, stop: Tensor) -> list[Stretch]:
    """Cut the rows where a slope changes.

    first, stop: int64 [T_q]

    >>> causal = stretches(torch.tensor([0, 0, 0, 0]), torch.tensor([1, 2, 3, 4]))
    >>> causal
    [Stretch(start=0, stop=4, slopes=(0, 1))]
    """
    rows = len(first)
    if rows < 2:
        return [Stretch(0, rows, (0, 0))] if rows else []
    slopes = torch.stack((first.diff(), stop.diff()))  # [2, T_q - 1]
    turns = ((slopes[:, 1:] != slopes[:, :-1]).any(dim=0).nonzero()[:, 0] + 1).tolist()
    starts = [0, *turns]
    found: list[Stretch] = []
    row = 0  # the first row that is in no segment yet
    for start, end, slope in zip(starts, [*turns, rows - 1], slopes[:, starts].T.tolist(), strict=True):
        begin = max(row, start)
        regular = set(slope) <= {0, 1}
        row = end + 1 if regular else end
        if begin < row:
            found.append(Stretch(begin, row, (slope[0], slope[1]) if regular else None))
    if row < rows:
        found.append(Stretch(row, rows, (0, 0)))
    return found


def _stretch_pieces(first: Tensor, stop: Tensor, layer: int) -> Iterator[Piece]:
    parts = stretches(first, stop)
    starts = [part.start for part in parts]
    for part, f0, s0 in zip(parts, first[starts].tolist(), stop[starts].tolist(), strict=True):
        if part.slopes == (0, 0):
            if f0 < s0:
                yield Piece(part.start, part.stop - part.start, ((f0, s0),), "full", layer=layer)
        elif part.slopes == (0, 1):
            yield from _growing(part, f0, s0, layer)
        elif part.slopes == (1, 1):
            yield from _band(part, f0, s0, layer)
        elif part.slopes == (1, 0):
            yield from _shrinking(part, f0, s0, layer)
        else:
            yield from _irregular(part, first, stop, layer)


def _growing(part: Stretch, first: int, stop: int, layer: int) -> Iterator[Piece]:
    """Each query sees one key more than the one before: a triangle, beside keys that all of them see."""
    start, rows = part.start, part.stop - part.start
    shared = stop - 1 - first  # keys before the triangle
    if shared and rows < _FEW_ROWS:
        yield Piece(start, rows, ((first, stop - 1 + rows),), "tile", layer=layer)
        return
    if shared:
        yield Piece(start, rows, ((first, stop - 1),), "full", layer=layer)
    yield Piece(start, rows, ((stop - 1, stop - 1 + rows),), "triangle", layer=layer)


def _band(part: Stretch, first: int, stop: int, layer: int) -> Iterator[Piece]:
    """Each query sees as many keys, one further on: blocks of rows that are all alike."""
    width, rows = stop - first, part.stop - part.start
    if width <= 0:
        return
    block = min(rows, 64 if width <= 64 else ROWS if width < _WIDE else _WIDE // 2)
    count, rest = divmod(rows, block)
    yield from _band_blocks(part.start, (first, width), (block, count), layer)
    if rest:
        done = count * block
        yield from _band_blocks(part.start + done, (first + done, width), (rest, 1), layer)


def _band_blocks(start: int, keys: tuple[int, int], blocks: tuple[int, int], layer: int) -> Iterator[Piece]:
    """One masked block where the band is narrow, else what all rows see between two triangles."""
    (first, width), (rows, count) = keys, blocks
    again: dict[str, Any] = {"layer": layer, "count": count, "q_step": rows, "k_step": rows}
    if width < _WIDE or rows < _FEW_ROWS:
        yield Piece(start, rows, ((first, first + rows - 1 + width),), "tile", **again)
        return
    yield Piece(start, rows, ((first, first + rows),), "mirrored", **again)
    if width > rows + 1:
        yield Piece(start, rows, ((first + rows, first + width - 1),), "full", **again)
    yield Piece(start, rows, ((first + width - 1, first + width - 1 + rows),), "triangle", **again)


def _shrinking(part: Stretch, first: int, stop: int, layer: int) -> Iterator[Piece]:
    """Each query sees one key less than the one before, at the front."""
    rows = min(part.stop - part.start, stop - first)
    if rows <= 0:
        return
    if rows < _FEW_ROWS and first + rows < stop:
        yield Piece(part.start, rows, ((first, stop),), "tile", layer=layer)
        return
    yield Piece(part.start, rows, ((first, first + rows),), "mirrored", layer=layer)
    if first + rows < stop:
        yield Piece(part.start, rows, ((first + rows, stop),), "full", layer=layer)


def _irregular(part: Stretch, first: Tensor, stop: Tensor, layer: int) -> Iterator[Piece]:
    for start in range(part.start, part.stop, ROWS):
        rows = slice(start, min(start + ROWS, part.stop))
        seen = first[rows] < stop[rows]
        if seen.any():
            keys = ((int(first[rows][seen].min()), int(stop[rows][seen].max())),)
            yield Piece(start, rows.stop - start, keys, "tile", layer=layer)


def _rested(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Join a triangle with the queries after it that see all of its keys: the causal flag serves both."""
    held: Piece | None = None
    for piece in pieces:
        after = held is not None and held.q_start + held.q_len == piece.q_start
        if held is not None and after and piece.shape == "full" and piece.runs == held.runs:
            piece = replace(held, q_len=held.q_len + piece.q_len)
        elif held is not None:
            yield held
        held = piece if piece.shape == "triangle" else None
        if held is None:
            yield piece
    if held is not None:
        yield held


def _fold(pieces: Iterable[Piece]) -> list[Piece]:
    """Join equal pieces at a constant distance: packed documents, chunks."""
    kinds: dict[Any, list[Piece]] = {}
    for piece in pieces:
        alone = piece if piece.shape == "tile" or piece.count > 1 else None
        kinds.setdefault((piece.shape, piece.q_len, piece.k_len, alone), []).append(piece)
    return [joined for equal in kinds.values() for joined in _progressions(equal)]


def _progressions(pieces: list[Piece]) -> Iterator[Piece]:
    held = pieces[0]
    for piece in pieces[1:]:
        q_step = piece.q_start - held.q_start - (held.count - 1) * held.q_step
        k_step = piece.runs[0][0] - held.runs[0][0] - (held.count - 1) * held.k_step
        apart = q_step >= piece.q_len and k_step > 0
        if apart and (held.count == 1 or (q_step, k_step) == (held.q_step, held.k_step)):
            held = replace(held, count=held.count + 1, q_step=q_step, k_step=k_step)
        else:
            yield held
            held = piece
    yield held


def _row_blocks(spans: Spans, samples: tuple[int, ...] | None) -> Iterator[Piece]:
    """Blocks of rows beside all keys that some of their queries see; layers and samples share one mask."""
    layers, _, q_len = spans.first.shape
    if spans.first.eq(spans.first[..., :1]).all() and spans.stop.eq(spans.stop[..., :1]).all():
        block = q_len  # the same keys for every query
    else:
        block = ROWS
    for start in range(0, q_len, block):
        rows = slice(start, min(start + block, q_len))
        hulls = []
        for layer in range(layers):
            first, stop = spans.first[layer, :, rows], spans.stop[layer, :, rows]
            seen = first < stop
            if seen.any():
                hulls.append((int(first[seen].min()), int(stop[seen].max())))
        if hulls:
            yield Piece(start, rows.stop - start, _joined(hulls), "tile", samples=samples, layer=-1)


def _joined(hulls: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Merge intervals that touch or overlap."""
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(hulls):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(stop, joined[-1][1]))
        else:
            joined.append((start, stop))
    return tuple(joined)


def _reason(groups: list[tuple[tuple[int, ...] | None, Spans]], pieces: list[Piece]) -> str:
    shapes = {
        "full": "rectangles",
        "triangle": "triangles",
        "mirrored": "mirrored triangles",
        "tile": "masked blocks",
    }
    used = [word for shape, word in shapes.items() if any(piece.shape == shape for piece in pieces)]
    each = f" for {len(groups)} kinds of samples" if len(groups) > 1 else ""
    return f"every query sees few runs of keys: {' and '.join(used) or 'nothing'}{each}"
