"""3.5 Find it: the hidden keys weigh nothing.

The test that came with this code asserts that every hidden key has a weight of exactly 0, and it passes. Still
the model got worse the more padding there was in a batch. Say which rule it breaks (`softlookup rules` lists
them), then mend it.
"""

import torch

BUG = ""  # the name of the rule, e.g. "scale-missing"


def attend(q, k, v, allowed_mask=None):
    """Return the output of scaled dot-product attention, and the weights.

    q: (B, H, T_q, d_head)   k: (B, H, T_k, d_head)   v: (B, H, T_k, d_v)
    allowed_mask: boolean, broadcastable to (B, H, T_q, T_k), True = may be looked at
    """
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    weights = scores.softmax(dim=-1)
    if allowed_mask is not None:
        weights = weights.masked_fill(~allowed_mask, 0.0)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, 4, 8)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    _, weights = attend(q, k, v, causal)
    print(weights)
    print("hidden keys weigh nothing:", bool((weights[..., ~causal] == 0).all()))
