"""A query sees only earlier keys and not its own, as declared; the first may see itself.

Seen in: https://github.com/pytorch/pytorch/issues/143287
"""

import torch
from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

WORDS = (
    "strict",
    "not itself",
    "its own key",
    "only earlier",
    "self excluded",
    "not see itself",
    "except itself",
)
VARIANTS = ("the first query sees itself", "the first query sees nothing")


def visible(case: Case, variant: str) -> Tensor | None:
    allowed = all_rules(case)
    if allowed is None or case.causal is None:
        return allowed
    q_len, k_len = case.q.shape[-2], case.k.shape[-2]
    own = torch.arange(q_len) + (k_len - q_len if case.causal == "bottom-right" else 0)
    earlier = allowed & (torch.arange(k_len) != own[:, None])
    if variant == "the first query sees nothing":
        return earlier
    return earlier | (allowed & ~earlier.any(dim=-1, keepdim=True))
