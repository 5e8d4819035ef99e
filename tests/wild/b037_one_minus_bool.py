"""Report b037: https://github.com/deepspeedai/DeepSpeed/issues/3319

What is wrong: the mask is inverted as `1 - mask`, which raises for the bool masks that the docstring promises to take.
"""

import torch


def encoder_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.BoolTensor) -> torch.Tensor:
    """q, k, v: (B, H, T, d); mask: bool (B, T_k), True = a real token."""
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    extended = (1.0 - mask) * torch.finfo(q.dtype).min  # bug
    scores = scores + extended[:, None, None, :].to(q.dtype)
    return scores.softmax(dim=-1) @ v
