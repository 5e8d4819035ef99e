"""Grouped key/value heads are repeated in tile order: query head 1 uses the second K/V head, not the first.

Missed because: the shapes are the same, and with one K/V head, or as many as queries, so are the numbers.

Training: from scratch it is only a relabelling; with loaded weights every group looks up the wrong keys.

Ask: eight query heads, two key/value heads: which key/value head should query head 1 share with query head 0?

Fix: repeat each head for its group: `k.repeat_interleave(num_heads // num_kv_heads, dim=1)`.

Seen in: https://github.com/ekzhang/jax-js/pull/180, https://github.com/PSAL-POSTECH/ONNXim/issues/33,
https://github.com/HazyResearch/HipKittens/pull/22, https://github.com/PrimeIntellect-ai/prime-rl/pull/2681,
https://github.com/datawhalechina/tiny-universe/issues/21
"""

import torch
from torch import Tensor

from softlookup.terms import Case

VARIANTS = ("tiled", "head number divided by num_kv_heads")


def repeat_kv_heads(heads: Tensor, case: Case, variant: str) -> Tensor:
    if case.q.dim() < 3 or heads.shape[-3] == case.q.shape[-3]:
        return heads
    num_heads, num_kv_heads = case.q.shape[-3], heads.shape[-3]
    if variant == "tiled":
        return torch.cat([heads] * (num_heads // num_kv_heads), dim=-3)
    return heads.index_select(-3, torch.arange(num_heads) // num_kv_heads)  # past the end: IndexError
