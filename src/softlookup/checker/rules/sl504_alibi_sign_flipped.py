"""The distance bias has the wrong sign: far keys are favoured, near ones pushed away.

Missed because: `q_index - k_index` and `k_index - q_index` differ by a sign only, and both give a smooth
ramp.

Training: the model attends to the oldest tokens first, and gets worse the longer the input is.

Ask: two keys fit equally well, one near and one far: which one should win with this bias?

Fix: let the bias fall with distance: `slopes * (k_index - q_index)` for keys before the query.

Seen in: https://github.com/meta-pytorch/attention-gym/pull/86
"""

import math

import torch
from torch import Tensor

from softlookup.attention import hide as hide_all
from softlookup.masks.linear_distance import slopes as slopes_of
from softlookup.terms import Case

LINE = ("signed", "hide")
VARIANTS = (
    "the given bias",
    *((form, slopes) for form in ("signed", "by distance") for slopes in ("any", "power of two")),
)


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: str | tuple[str, str]) -> Tensor:
    bias = case.additive_bias
    if variant == "the given bias":
        flipped = None if bias is None else torch.where(bias == -math.inf, bias, -bias)
        return hide_all(scores, allowed, case.but(additive_bias=flipped))
    if bias is not None:
        return hide_all(scores, allowed, case)
    q_len, k_len = scores.shape[-2:]
    here = torch.arange(q_len)[:, None] + (k_len - q_len if case.causal == "bottom-right" else 0)
    behind = here - torch.arange(k_len)  # [T_q, T_k]: how far back the key lies
    behind = behind.abs() if variant[0] == "by distance" else behind
    H = case.q.shape[-3]
    each = slopes_of(H) if variant[1] == "any" else [2 ** (-8 * (h + 1) / H) for h in range(H)]
    slopes = torch.tensor(each)[:, None, None]  # [H, 1, 1]
    return hide_all(scores, allowed, case.but(additive_bias=slopes * behind))
