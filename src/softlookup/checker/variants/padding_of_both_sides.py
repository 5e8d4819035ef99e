"""The padding mask marks queries as well as keys: rows of padding look nowhere, and nobody reads them.

Seen in: https://github.com/lucidrains/conformer/blob/master/conformer/conformer.py
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case


def visible(case: Case) -> Tensor | None:
    """[B, H, T_q, T_k] bool: what all rules allow, for the queries that are no padding."""
    allowed, mask = all_rules(case), case.allowed_mask
    if allowed is None or mask is None or mask.dim() < 2:
        return allowed
    of_tokens = mask.shape[-2] == 1 and mask.shape[-1] == case.q.shape[-2]
    return allowed & mask.transpose(-2, -1) if of_tokens else allowed
