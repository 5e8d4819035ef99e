"""Keys after the query carry weight although causal attention was asked for.

Missed because: training runs and the loss is lower than ever; only generation, where no future exists, is
bad.

Training: the model copies the answer from the next position instead of predicting it.

Ask: in the row of the first query, which columns should be exactly zero?

Fix: hide keys after the query before the softmax: `scores.masked_fill(j > i, -math.inf)`.

Seen in: https://github.com/jadore801120/attention-is-all-you-need-pytorch/issues/19,
https://github.com/karpathy/nanoGPT/issues/331, https://github.com/Mikyx-1/TinyLLM/pull/18,
https://github.com/InfiniTensor/InfiniCore/issues/279, https://github.com/pytorch/pytorch/issues/96941
"""

import torch
from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("dropped", "visible", "hide", "normalize")
VARIANTS = ("every later key", "as far ahead as the window looks back")


def visible(case: Case, variant: str) -> Tensor | None:
    if case.causal is None and (case.window is None or case.window_ahead):
        return all_rules(case)
    others = all_rules(case.but(causal=None, window=None))
    if case.window is None:
        return others
    q_len, k_len = case.q.shape[-2], case.k.shape[-2]
    here = torch.arange(q_len)[:, None] + (k_len - q_len if case.causal == "bottom-right" else 0)
    ahead = torch.arange(k_len) - here  # [T_q, T_k]
    near = ahead > -case.window if variant == VARIANTS[0] else ahead.abs() < case.window
    return near if others is None else near & others
