"""Fully annotated, with everything optional spelled out."""

from typing import Optional, Tuple

import torch
from torch import Tensor


def sdpa(query: Tensor, key: Tensor, value: Tensor, attn_mask: Optional[Tensor] = None, scale: Optional[float] = None) -> Tuple[Tensor, Tensor]:
    """query, key, value: (..., T, d); attn_mask: bool (True = take part) or float (added); returns (output, weights)."""
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = torch.matmul(query, key.transpose(-2, -1)) * factor
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
        else:
            scores = scores + attn_mask.to(scores.dtype)
    weights = torch.softmax(scores, dim=-1)
    return torch.matmul(weights, value), weights
