"""A learned logit per head joins the softmax and its column is dropped. Trap f13."""

import torch


def attention_with_sinks(query, key, value, sinks):
    """query, key, value: (B, H, T, d); sinks: (H,), one logit a head that takes weight and gives no value."""
    qk = torch.matmul(query, key.transpose(2, 3)) * query.shape[-1] ** -0.5
    column = sinks.to(qk.dtype).reshape(1, -1, 1, 1).expand(qk.shape[0], -1, qk.shape[2], 1)
    weights = torch.softmax(torch.cat([qk, column], dim=-1), dim=-1)
    return torch.matmul(weights[..., :-1], value)
