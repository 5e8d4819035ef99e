"""2.4 Find it: numbers between 0 and 1.

All shapes are right, all weights lie between 0 and 1, and a model trains with it. Still it is wrong.
Say which rule it breaks (`softlookup rules` lists them), then mend it.
"""

import math

import torch

BUG = ""  # the name of the rule, e.g. "scale-missing"


def attend(q, k, v, allowed_mask=None):
    """Return the output of scaled dot-product attention.

    q: (B, H, T_q, d_head)   k: (B, H, T_k, d_head)   v: (B, H, T_k, d_v)
    allowed_mask: boolean, broadcastable to (B, H, T_q, T_k), True = may be looked at
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-2)  # (B, H, T_q, T_k)
    return weights @ v  # (B, H, T_q, d_v)
