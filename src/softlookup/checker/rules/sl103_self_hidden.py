"""The causal diagonal is off by one the other way: a query cannot see its own key.

Missed because: nothing leaks, so every test for the future passes; only the first row, which is left with no
key, gives NaN or an average over everything.

Training: each position works from the tokens before it only, and the first one from nothing; with residual
connections the model still learns, worse.

Ask: what is left for the first query to look at?

Fix: block strictly later keys: `triu(ones, diagonal=1)`, not `diagonal=0`.

Seen in: https://github.com/pbloem/former/issues/10
"""

import torch
from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("visible", "hide")


VARIANTS = ("the causal rule", "the causal rule and the window")


def visible(case: Case, variant: str) -> Tensor | None:
    allowed = all_rules(case)
    windowed = "window" in variant and case.window is not None and not case.window_ahead
    if (case.causal is None and not windowed) or allowed is None:
        return allowed
    q_len, k_len = case.q.shape[-2], case.k.shape[-2]
    here = torch.arange(q_len)[:, None] + (k_len - q_len if case.causal == "bottom-right" else 0)
    return allowed & (torch.arange(k_len) != here)
