"""Spans as segments: what a kernel for sequences of different lengths can be told, with its window.

A segment is a stretch of queries of one sample beside a range of keys. The kernel puts the last query at the
last key, and a window (left, right) then says how far each query sees from there; -1 is all the way:

    (-1, -1)  (-1, 0)   (1, 0)    (1, -1)
    1 1 1     1 . .     1 . .     1 1 1
    1 1 1     1 1 .     1 1 .     1 1 1
    1 1 1     1 1 1     . 1 1     . 1 1

All segments with one window are one call. Documents, padding, chunks, prefixes and windows, also several of
them together, become at most a few windows.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from softlookup.masks.spans import Spans

_MOST_WINDOWS = 3  # each is a call over gathered rows; where more would be needed, another path is better

#: Keys that a query sees before and after its own place; -1: all of them.
Window: TypeAlias = tuple[int, int]
_CAUSAL, _ALL = (-1, 0), (-1, -1)


class Segment(NamedTuple):
    """Queries [q_start, q_stop) of one sample beside keys [k_start, k_stop)."""

    sample: int
    q_start: int
    q_stop: int
    k_start: int
    k_stop: int


def segments_of(spans: Spans, batch: int) -> dict[Window, list[Segment]] | None:
    """Return the segments for each window, in the order of their queries; queries without keys are in none.

    None: a query sees more than one interval, or more than three windows would be needed.

    >>> from softlookup.masks import causal, padding
    >>> from softlookup.masks.spans import spans_of
    >>> for window, segments in segments_of(spans_of(causal() & padding(2), 4, 4), 1).items():
    ...     print(window, segments)
    (-1, 0) [Segment(sample=0, q_start=0, q_stop=2, k_start=0, k_stop=2)]
    (-1, -1) [Segment(sample=0, q_start=2, q_stop=4, k_start=0, k_stop=2)]
    """
    if len(spans.first) > 1:
        return None
    groups: dict[Window, list[Segment]] = {}
    single: list[Segment] = []
    for sample in range(batch):
        own = sample if spans.first.shape[1] > 1 else 0
        for window, segment in _of_sample(spans.first[0, own], spans.stop[0, own], sample):
            (single if window is None else groups.setdefault(window, [])).append(segment)
    if single:  # one query sees all keys of its segment, be it called causal or not
        home = groups.setdefault(_CAUSAL if _CAUSAL in groups else _ALL, [])
        home[:] = sorted([*home, *single])
    return groups if len(groups) <= _MOST_WINDOWS else None


def _of_sample(first: Tensor, stop: Tensor, sample: int) -> list[tuple[Window | None, Segment]]:
    """Cut the queries of a sample, ``first, stop: [T_q]``, where their intervals stop moving evenly."""
    found: list[tuple[Window | None, Segment]] = []
    empty = first == stop
    moves = torch.stack([first.diff(), stop.diff()])  # [2, T_q - 1]
    moves[:, empty[1:] | empty[:-1]] = -1  # no segment goes on across a query without keys
    changes = (moves[:, 1:] != moves[:, :-1]).any(dim=0).nonzero()[:, 0] + 1
    ends = [*changes.tolist(), moves.shape[1]]  # the last query that a stretch of equal moves leads to
    steps = moves.T[[0, *changes.tolist()]].tolist() if moves.shape[1] else []
    start, stretch = 0, 0
    hidden = empty.tolist()
    while start < len(hidden):
        while stretch < len(steps) and ends[stretch] <= start:
            stretch += 1
        last, slope, slid, n = start, None, False, stretch
        while n < len(steps) and _goes_on(steps[n], slope, slid):
            last, slope, slid, n = ends[n], steps[n][1], slid or steps[n][0] == 1, n + 1
        if not hidden[start]:
            k_start, k_stop = int(first[start]), int(stop[last])
            left = k_stop - 1 - int(first[last]) if slid else -1
            window = None if slope is None else (left, 0 if slope else -1)
            found.append((window, Segment(sample, start, last + 1, k_start, k_stop)))
        start = last + 1
    return found


def _goes_on(step: list[int], slope: int | None, slid: bool) -> bool:
    """Say whether a segment may go on with this move of (first, stop)."""
    first, stop = step
    return first in (0, 1) and stop in (0, 1) and slope in (None, stop) and not (slid and first == 0)
