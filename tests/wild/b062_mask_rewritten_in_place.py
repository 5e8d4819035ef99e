"""Report b062: https://github.com/Shujun-He/RibonanzaNet/issues/7

What is wrong: the caller's mask is turned into a bias in place, so the next layer reads a bias as a mask.
"""

import torch


def layer_attention(q, k, v, mask=None):
    """q, k, v: (B, H, T, d); mask: float (B, T_k), 1.0 = a real token, 0.0 = padding."""
    attn = torch.matmul(q, k.transpose(2, 3)) / q.shape[-1] ** 0.5
    if mask is not None:
        mask.sub_(1.0).mul_(1e4)  # bug
        attn = attn + mask.to(attn.dtype)[:, None, None, :]
    return torch.matmul(torch.softmax(attn, dim=-1), v)
