"""3.4 Attention with a mask.

A hidden key must get a weight of exactly 0, and the keys that are left must share out the whole unit. Both come
for free when the mask acts before the softmax: a score of -inf becomes exp(-inf) = 0.
"""

import math

import torch


def masked_attention(q, k, v, allowed_mask=None):
    """Return the output and the weights.

    q: (B, H, T_q, d_k)   k: (B, H, T_k, d_k)   v: (B, H, T_k, d_v)
    allowed_mask: boolean, broadcastable to (B, H, T_q, T_k), True = this query may look at this key

    Returns: output (B, H, T_q, d_v) and weights (B, H, T_q, T_k)

    Raises: ValueError when a query may look at no key at all.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        if not allowed_mask.any(dim=-1).all():
            raise ValueError("the mask leaves a query without any key, and the softmax of nothing is NaN")
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)  # (B, H, T_q, T_k)
    return weights @ v, weights


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 2, 5, 8) for _ in range(3))  # B = 2, H = 2, T = 5, d_head = 8
    token_ids = torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]])
    causal = torch.ones(5, 5, dtype=torch.bool).tril()[None, None]  # (1, 1, 5, 5)
    allowed = causal & (token_ids != 0)[:, None, None]  # (2, 1, 5, 5)
    context, weights = masked_attention(q, k, v, allowed)
    print(context.shape, weights.shape)
    print(weights[0, 0])  # the first sample has three real tokens
