"""Which blocks of the score matrix a mask uses at all, found without a copy of the mask.

A mask of no known structure is still often sparse in blocks: where a block of 128 queries by 128 keys is
hidden as a whole, it need not be computed, and where it is visible as a whole, it needs no mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from softlookup.masks.algebra import Given, Mask
from softlookup.terms import SoftlookupError


class Run(NamedTuple):
    """Neighbouring visible blocks as one range of keys; ``full``: every query of the block sees all of it."""

    start: int
    stop: int
    full: bool


@dataclass(frozen=True, eq=False)
class Occupancy:
    """What a mask shows of each block of queries by keys.

    some: bool [B or 1, H or 1, q blocks, k blocks], the block shows at least one key to one query
    all: the same shape, it shows every key to every query
    """

    some: Tensor
    all: Tensor
    block: int
    k_len: int

    @property
    def share(self) -> float:
        """The share of blocks that show anything, 0 to 1; 0 where there is no block."""
        return self.some.float().mean().item() if self.some.numel() else 0.0

    @cached_property
    def _states(self) -> list[list[list[list[int]]]]:
        """Numbers in the shape of ``some``, fetched from the device once: 0 hidden, 1 in part, 2 full."""
        states: list[list[list[list[int]]]] = (self.some.to(torch.uint8) + self.all).tolist()
        return states


def block_occupancy(mask: Tensor | Mask, q_len: int, k_len: int, block: int = 128) -> Occupancy:
    """Return which blocks of a mask show something, and which show everything.

    mask: bool [.., T_q or 1, T_k or 1] with four axes, True = may look; or a float bias of that shape, where
    only -inf hides; or a ``Mask``, which is never made dense: it is asked for one row of blocks at a time

    A bool tensor is read once, a float tensor twice. Beyond it, one number for each key and block of queries
    is held.

    Raises: SoftlookupError when a tensor has not four axes, is of integers, or block is below 1.

    >>> halves = torch.tensor([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0]]).bool()
    >>> seen = block_occupancy(halves[None, None], 4, 4, block=2)
    >>> seen.some[0, 0].tolist(), seen.all[0, 0].tolist()
    ([[True, False], [False, True]], [[True, False], [False, False]])
    """
    if block < 1:
        raise SoftlookupError("block_occupancy: a block has a size.", expected="at least 1", got=str(block))
    if isinstance(mask, Given):
        mask = mask.allowed_mask
    if isinstance(mask, Mask):
        some, full = _row_by_row(lambda i: mask._answer(i, q_len, k_len), q_len, block, mask._home())
    else:
        some, full = _of_tensor(_one_of_each(_accepted(mask)), block)
    blocks = (-(-q_len // block), -(-k_len // block))
    return Occupancy(
        some.expand(*some.shape[:2], *blocks), full.expand(*full.shape[:2], *blocks), block, k_len
    )


def runs_of_blocks(occupancy: Occupancy, batch: int, head: int, q_block: int) -> list[Run]:
    """Return the ranges of keys that one block of queries looks at: neighbouring visible blocks joined.

    Where the mask does not differ between samples or heads, any number will do for them.

    >>> mask = torch.tensor([[1, 1, 1, 0, 0, 0, 1]]).bool()[None, None]
    >>> runs_of_blocks(block_occupancy(mask, 1, 7, block=2), 0, 0, 0)
    [Run(start=0, stop=4, full=False), Run(start=6, stop=7, full=True)]
    """
    sample = occupancy._states[batch if occupancy.some.shape[0] > 1 else 0]
    states = sample[head if occupancy.some.shape[1] > 1 else 0][q_block]
    runs: list[Run] = []
    for n, state in enumerate(states):
        start, stop = n * occupancy.block, min((n + 1) * occupancy.block, occupancy.k_len)
        if state and runs and runs[-1].stop == start:
            runs[-1] = Run(runs[-1].start, stop, runs[-1].full and state == 2)
        elif state:
            runs.append(Run(start, stop, state == 2))
    return runs


def _accepted(mask: Tensor) -> Tensor:
    if mask.dim() == 4 and (mask.dtype == torch.bool or mask.is_floating_point()):
        return mask
    raise SoftlookupError(
        "block_occupancy: this is no mask with four axes.",
        expected="bool or float [B or 1, H or 1, T_q or 1, T_k or 1]",
        got=f"{str(mask.dtype).removeprefix('torch.')} {list(mask.shape)}",
    )


def _one_of_each(mask: Tensor) -> Tensor:
    """Shrink axes that repeat one entry (an expanded view) to size 1: they need to be read only once."""
    for axis, (size, stride) in enumerate(zip(mask.shape, mask.stride(), strict=True)):
        if size > 1 and stride == 0:
            mask = mask.narrow(axis, 0, 1)
    return mask


def _of_tensor(mask: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Bool or float [B, H, T_q, T_k] -> (some, all), bool [B, H, q blocks, k blocks] of the sizes it has."""
    return _of_bools(mask, block) if mask.dtype == torch.bool else _of_floats(mask, block)


def _of_floats(bias: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Look at the largest and the smallest number of each block; a NaN makes it visible, and not full."""
    some = _by_blocks(bias, block, -2, lambda part: part.amax(-2)) != -math.inf
    full = _by_blocks(bias, block, -2, lambda part: part.amin(-2)) > -math.inf
    return _some_and_all(some, full, block)


def _row_by_row(
    rows: Callable[[Tensor], Tensor], q_len: int, block: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Ask for one block of queries after another: ``rows(i: [q])`` -> bool [B, H, q, T_k]."""
    starts = range(0, max(q_len, 1), block)
    blocks = (torch.arange(start, min(start + block, q_len), device=device) for start in starts)
    each = [_of_bools(_one_of_each(rows(i)), block) for i in blocks]
    k_blocks = max(full.shape[-1] for _, full in each)  # 1 where this block of queries sees all keys alike
    some, full = (
        [part.expand(*part.shape[:3], k_blocks) for part in parts] for parts in zip(*each, strict=True)
    )
    return torch.cat(some, dim=-2), torch.cat(full, dim=-2)


def _of_bools(mask: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """Count the queries that see each key: one pass, 10 to 20 times as fast as ``mask.any(-1)`` on a CPU."""
    q_size = mask.shape[-2]
    number = torch.uint8 if block <= 255 else torch.int32
    counts = _by_blocks(mask.view(torch.uint8), block, -2, lambda part: part.sum(-2, dtype=number))
    in_block = torch.full((counts.shape[-2], 1), block, dtype=number, device=mask.device)
    if q_size % block:
        in_block[-1] = q_size % block
    return _some_and_all(counts > 0, counts == in_block, block)


def _some_and_all(some: Tensor, full: Tensor, block: int) -> tuple[Tensor, Tensor]:
    """[B, H, q blocks, T_k] -> [B, H, q blocks, k blocks]."""
    some = _by_blocks(some, block, -1, lambda part: part.any(-1))
    return some, _by_blocks(full, block, -1, lambda part: part.all(-1))


def _by_blocks(values: Tensor, block: int, axis: int, reduce: Callable[[Tensor], Tensor]) -> Tensor:
    """Cut an axis (-1 or -2) into blocks, the last one maybe shorter, and reduce each block to one entry."""
    size = values.shape[axis]
    whole = size - size % block
    parts = [reduce(torch.unflatten(values.narrow(axis, 0, whole), axis, (whole // block, block)))]
    if size % block:
        parts.append(reduce(values.narrow(axis, whole, size - whole).unsqueeze(axis - 1)))
    return torch.cat(parts, dim=axis)
