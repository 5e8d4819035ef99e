"""exp of the scores minus their maximum, divided by the sum."""

import torch


def softmax_by_hand(x, axis=-1):
    e = torch.exp(x - torch.max(x, dim=axis, keepdim=True).values)
    return e / torch.sum(e, dim=axis, keepdim=True)


def attention(Q, K, V, mask=None):
    """Q: (..., T_q, d)   K: (..., T_k, d)   V: (..., T_k, d_v); mask: bool, True = may be seen."""
    scores = torch.matmul(Q, K.transpose(-1, -2)) / Q.shape[-1] ** 0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    return torch.matmul(softmax_by_hand(scores), V)
