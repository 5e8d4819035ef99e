"""Scaled dot-product attention written by hand, and the assertions that notice most ways to get it wrong."""

import math

import torch
from torch.nn.functional import scaled_dot_product_attention as torch_attention


def scaled_dot_product_attention(q, k, v, allowed_mask=None):
    """Return output (B, H, T_q, d_v) and weights (B, H, T_q, T_k). allowed_mask: True = may be seen."""
    scores = q @ k.transpose(-2, -1)  # (B, H, T_q, T_k)
    scores = scores / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, float("-inf"))
    weights = torch.softmax(scores, dim=-1)  # (B, H, T_q, T_k)
    return weights @ v, weights


def main():
    """Run the function on random tensors and check what must hold for every attention."""
    torch.manual_seed(123)
    B, H, T, d_head = 2, 3, 6, 4
    q, k, v = (torch.randn(B, H, T, d_head) for _ in range(3))
    causal = torch.tril(torch.ones(T, T, dtype=torch.bool))[None, None]  # (1, 1, T, T)

    output, weights = scaled_dot_product_attention(q, k, v, causal)

    assert output.shape == (B, H, T, d_head), f"output has shape {tuple(output.shape)}"
    assert weights.shape == (B, H, T, T), f"weights have shape {tuple(weights.shape)}"
    assert torch.allclose(weights.sum(dim=-1), torch.ones(B, H, T)), "rows of weights do not sum to one"
    assert torch.all(weights.triu(diagonal=1) == 0), "a query sees a key after itself"
    expected = torch_attention(q, k, v, is_causal=True)
    assert torch.allclose(output, expected, atol=1e-6), "the output differs from PyTorch's"
    print("attention invariants passed")


if __name__ == "__main__":
    main()
