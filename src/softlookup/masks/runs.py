"""Runs: neighbours in a row that are alike, as (first, stop)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

_AT_ONCE = 1 << 20  # so many entries at a time: they, and what is made of them, stay in the cache
_WORD = 8  # bools are searched eight at a time, as one int64


def runs_of_true(visible: Tensor, most: int) -> tuple[Tensor, Tensor] | None:
    """Return the runs of True in each row, or None when a row has more than ``most``.

    visible: bool [rows, T], on any device
    Returns first, stop: int64 [runs, rows] on the CPU, at least one run, from left to right. A row that has
    fewer than another is filled up with first == stop == T.

    >>> first, stop = runs_of_true(torch.tensor([[True, True, False, True], [False] * 4]), most=2)
    >>> first.tolist(), stop.tolist()
    ([[0, 4], [3, 4]], [[2, 4], [4, 4]])
    """
    rows, T = visible.shape
    found = [torch.zeros(2, 0, dtype=torch.int64, device="cpu")]
    at_once = max(1, _AT_ONCE // (T + 1))
    for start in range(0, rows, at_once):
        edges = _edges(visible[start : start + at_once], most)
        if edges is None:
            return None
        found.append(edges.cpu() + torch.tensor([[start], [0]], device="cpu"))
    row, position = torch.cat(found, dim=1)
    return _below_one_another(row[0::2], position[0::2], position[1::2], (most, rows), T)


def _edges(visible: Tensor, most: int) -> Tensor | None:
    """Return row and position, [2, edges] in order, of every entry that differs from the one before it.

    All is False before a row and behind it, so that the edges of a row are start, stop, start, stop, ...
    """
    rows, T = visible.shape
    padded = pad(visible, (1, _WORD - T % _WORD))
    differs = padded[:, 1:] != padded[:, :-1]  # [rows, T + 1 or more: a multiple of _WORD]
    row, word = differs.view(torch.int64).nonzero().unbind(1)
    if len(row) > 2 * most * rows:  # hopeless, and long to list one by one
        return None
    which, within = differs.view(rows, -1, _WORD)[row, word].nonzero().unbind(1)
    return torch.stack([row[which], word[which] * _WORD + within])


def runs_like(ids: Tensor, most: int) -> tuple[Tensor, Tensor] | None:
    """Return for every token the runs of its id in its row, or None when an id has more than ``most``.

    ids: integers [B, T], on the CPU
    Returns first, stop: int64 [runs, B, T], filled up as by ``runs_of_true``.

    >>> first, stop = runs_like(torch.tensor([[4, 4, 9, 4]]), most=2)
    >>> first[:, 0].tolist(), stop[:, 0].tolist()
    ([[0, 0, 2, 0], [3, 3, 4, 3]], [[2, 2, 3, 2], [4, 4, 4, 4]])
    """
    B, T = ids.shape
    starts = torch.ones(B, T, dtype=torch.bool, device="cpu")
    starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
    sample, first = starts.nonzero().unbind(1)  # [runs], through all samples
    stop = first.roll(-1)
    stop[stop == 0] = T  # what begins behind the last run of a sample is the next sample
    names, name = ids[sample, first].unique(return_inverse=True)  # type: ignore[no-untyped-call]
    group = sample * len(names) + name  # one number for an id in a sample
    order = group.argsort(stable=True)
    found = _below_one_another(group[order], first[order], stop[order], (most, B * len(names)), T)
    if found is None:
        return None
    group_of_token = group[starts.flatten().cumsum(0) - 1].view(B, T)
    return found[0][:, group_of_token], found[1][:, group_of_token]


def _below_one_another(
    row: Tensor, first: Tensor, stop: Tensor, most: tuple[int, int], T: int
) -> tuple[Tensor, Tensor] | None:
    """Sort runs into a table for first and one for stop: [runs of one row, rows].

    row, first, stop: [runs], row rising
    most: how many runs a row may have, else None is returned, and how many rows there are
    """
    most_runs, rows = most
    count = torch.bincount(row, minlength=rows)
    longest = int(count.max()) if rows else 0
    if longest > most_runs:
        return None
    place = torch.arange(len(row), device="cpu") - (count.cumsum(0) - count)[row]
    firsts, stops = (torch.full((max(longest, 1), rows), T, device="cpu") for _ in range(2))
    firsts[place, row], stops[place, row] = first, stop
    return firsts, stops
