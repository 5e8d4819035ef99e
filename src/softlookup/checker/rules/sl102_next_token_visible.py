"""The causal diagonal is off by one: every query also sees the next key.

Missed because: the map still looks triangular, and one key too many is hard to see in a drawing.

Training: the next token is the target, so the model reads its answer; the loss falls towards zero.

Ask: which is the last key that the first query may see, and which is the last that it sees here?

Fix: keep the main diagonal as the last visible one: `torch.tril(ones, diagonal=0)`, or block `triu(ones,
diagonal=1)`.

Seen in: https://github.com/RVC-Boss/GPT-SoVITS/issues/965 (whether the diagonal matches the shift of the
targets)
"""

import torch
from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("visible", "hide")


#: A window that only looks back ends at the query too, in one line with the causal rule or in one of its own.
VARIANTS = ("the causal rule", "the causal rule and the window")


def visible(case: Case, variant: str) -> Tensor | None:
    allowed = all_rules(case)
    ends_here = case.window is not None and not case.window_ahead
    wrong = (case.causal is not None or ends_here) if "window" in variant else case.causal and not ends_here
    if not wrong or allowed is None:
        return allowed
    q_len, k_len = case.q.shape[-2], case.k.shape[-2]
    here = torch.arange(q_len)[:, None] + (k_len - q_len if case.causal == "bottom-right" else 0)
    following = torch.arange(k_len) == here + 1  # [T_q, T_k]
    others = all_rules(case.but(causal=None, window=None))
    return allowed | (following if others is None else following & others)
