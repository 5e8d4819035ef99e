"""Wrong only where T is not a multiple of a block: what is left over after the last full block is dropped.

Missed because: test lengths are powers of two, and so are block sizes.

Training: the newest keys (or queries) of odd lengths are lost, just those that matter most in decoding.

Fix: round up and mask the rest: `num_blocks = (T + block - 1) // block`.

Seen in: https://github.com/pytorch/pytorch/issues/153799 (lengths that are no multiple of 128),
https://github.com/pytorch/pytorch/issues/191937 (a sweep of lengths)
"""

import torch
from torch import Tensor

from softlookup.attention import mix as mixed
from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("score", "mix")
#: Which axis is cut into blocks, and their size.
VARIANTS = tuple((axis, size) for axis in ("keys", "queries") for size in (2, 4, 8, 16, 32, 64, 128, 256))


def visible(case: Case, variant: tuple[str, int]) -> Tensor | None:
    axis, size = variant
    allowed, k_len = all_rules(case), case.k.shape[-2]
    if axis == "queries" or k_len % size == 0:
        return allowed
    kept = (torch.arange(k_len) < k_len - k_len % size).expand(case.q.shape[-2], k_len)
    return kept if allowed is None else allowed & kept


def mix(weights: Tensor, v: Tensor, case: Case, variant: tuple[str, int]) -> Tensor:
    axis, size = variant
    output, q_len = mixed(weights, v, case), case.q.shape[-2]
    if axis == "keys" or q_len % size == 0:
        return output
    dropped = torch.arange(q_len) >= q_len - q_len % size
    return output.masked_fill(dropped[:, None], 0.0)  # rows that nobody writes
