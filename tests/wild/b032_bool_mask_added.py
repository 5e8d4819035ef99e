"""Report b032: https://github.com/huggingface/transformers/pull/41443

What is wrong: the bool mask is added to the scores: an allowed key gets +1, a hidden one +0.
"""

import torch


def eager_attention(query, key, value, attention_mask=None, scaling=None, **kwargs):
    """query, key, value: (batch, heads, seq, head_dim).

    attention_mask: bool (batch, 1, queries, keys), True = attend
    """
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    attn_weights = torch.matmul(query, key.transpose(2, 3)) * scaling
    if attention_mask is not None:
        attn_weights = attn_weights + attention_mask  # bug
    attn_weights = torch.nn.functional.softmax(attn_weights, dim=-1, dtype=torch.float32).to(query.dtype)
    return torch.matmul(attn_weights, value), attn_weights
