"""7.1 A file that checks attention.

Before you trust a layer, look at four facts that hold whatever its numbers are: the shapes, the sums of
the rows, the future, and an answer that is known to be right. Written as assertions they stay: from now
on every change of the code is checked in a second. This is the file that many a real bug would not have
survived.
"""

import math

import torch
import torch.nn.functional as F


def check(q, k, v, output, weights):
    """Assert four facts about the answer of causal attention, then return "attention invariants passed".

    q, k, v: (B, H, T, d_head), what attention was given
    output, weights: what it answered; they may be wrong in every way

    Raises: AssertionError when one of these does not hold:
      1. the output has the shape of q, and the weights have the shape (B, H, T, T)
      2. every row of the weights sums to one, give or take 1e-5
      3. no query gives any weight to a key after it: exactly 0
      4. the output is that of `F.scaled_dot_product_attention` with is_causal=True, give or take 1e-6
    """
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    """Return the output (B, H, T, d_head) and the weights (B, H, T, T). Nothing is wrong with it: yet."""
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


if __name__ == "__main__":
    torch.manual_seed(123)
    B, H, T, d_head = 2, 3, 6, 4
    q, k, v = torch.randn(3, B, H, T, d_head).unbind(0)
    print(check(q, k, v, *causal_attention(q, k, v)))
