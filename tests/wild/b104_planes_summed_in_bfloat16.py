"""Report b104: https://github.com/NVIDIA-NeMo/Automodel/pull/2658

What is wrong: one plane for later keys and one for padded keys, each the lowest number, are summed, and the sum is -inf where both hide.
"""

import torch


def ragged_attention(query, key, value, attention_mask):
    """Causal self-attention in a ragged, left-padded batch, meant for bfloat16.

    query, key, value: (batch, tokens, heads, head_dim)
    attention_mask: (batch, tokens) bool, True for real tokens
    Hidden keys get the lowest finite number, so that a row with no visible key stays uniform over all keys.
    """
    lowest, tokens = torch.finfo(query.dtype).min, query.shape[1]
    later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    planes = (later[None, None], ~attention_mask[:, None, None])
    bias = sum(plane.to(query.dtype) * lowest for plane in planes)  # bug
    logits = torch.einsum("bqhd,bkhd->bhqk", query, key) / query.shape[-1] ** 0.5
    logits = torch.where(bias < 0, bias, logits)
    return torch.einsum("bhqk,bkhd->bqhd", logits.softmax(-1), value)
