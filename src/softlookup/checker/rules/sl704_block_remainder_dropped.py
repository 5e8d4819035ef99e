"""Wrong only where T is not a multiple of a block: what is left over after the last full block is dropped.

Missed because: test lengths are powers of two, and so are block sizes.

Training: the newest keys (or queries) of odd lengths are lost, just those that matter most in decoding.

Ask: how many keys are left over when the length is no multiple of the block, and which line handles them?

Fix: round up and mask the rest: `num_blocks = (T + block - 1) // block`.

Seen in: https://github.com/pytorch/pytorch/issues/153799 (lengths that are no multiple of 128),
https://github.com/pytorch/pytorch/issues/191937 (a sweep of lengths)
"""

import math

import torch
from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.attention import mix as mixed
from softlookup.terms import Case

LINE = ("blocks", "score", "mix")
NEEDS_FORWARD = True
ALONE = True
SIZES = (2, 4, 8, 16, 32, 64, 128, 256)
#: Which axis is cut into blocks, their size, and what a row holds when there is not one full block.
VARIANTS = tuple(
    (axis, size, nothing)
    for axis, nothing in (("keys", 0.0), ("keys", math.nan), ("queries", 0.0))
    for size in SIZES
)


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: tuple[str, int, float]) -> Tensor:
    axis, size, _ = variant
    scores, k_len = hide_all(scores, allowed, case), case.k.shape[-2]
    dropped = torch.arange(k_len) >= k_len - k_len % size
    return scores.masked_fill(dropped, -math.inf) if axis == "keys" else scores


def mix(weights: Tensor, v: Tensor, case: Case, variant: tuple[str, int, float]) -> Tensor:
    axis, size, nothing = variant
    if axis == "keys":  # a row whose keys all lie in the remainder has NaN weights here
        return mixed(weights.nan_to_num(nan=nothing), v, case)
    q_len = case.q.shape[-2]
    dropped = torch.arange(q_len) >= q_len - q_len % size
    return mixed(weights, v, case).masked_fill(dropped[:, None], nothing)  # rows that nobody writes
