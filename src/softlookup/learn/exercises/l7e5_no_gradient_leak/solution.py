"""7.5 Find it: a gradient where none should be.

A hidden key gets no weight, so its value should learn nothing from this query: its gradient is exactly
0. Run the file: the gradients of the hidden values are small, but they are there, and with larger scores
they are not small. Say which rule it breaks (`softlookup rules` lists them), then mend it.
"""

import torch

BUG = "mask-fill-too-weak"


def attention(query, key, value, mask=None):
    """Return the output (B, H, T_q, d_v) and the weights (B, H, T_q, T_k).

    query: (B, H, T_q, d_head)   key: (B, H, T_k, d_head)   value: (B, H, T_k, d_v)
    mask: boolean, broadcastable to (B, H, T_q, T_k), True = may be looked at
    """
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


if __name__ == "__main__":
    torch.manual_seed(0)
    mask = torch.tensor([True, True, False, False])  # keys 2 and 3 are padding
    for factor in (1, 4, 16):
        query, key = factor * torch.randn(1, 1, 3, 8), torch.randn(1, 1, 4, 8)
        value = torch.randn(1, 1, 4, 2, requires_grad=True)
        attention(query, key, value, mask)[0].sum().backward()
        gradients = [f"{size:.6f}" for size in value.grad.abs().amax(-1).flatten().tolist()]
        print(f"scores times {factor:2}: gradients of the four values", *gradients)
