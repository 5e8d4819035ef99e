"""Report b026: https://github.com/huggingface/transformers/pull/38094

What is wrong: an additive mask is cast to bool: 0, which keeps a key, becomes False, which drops it.
"""

import torch.nn.functional as F


def fused_attention_forward(query, key, value, attention_mask=None, scaling=None):
    """query, key, value: [batch, heads, tokens, head_dim].

    attention_mask: float [batch, 1, queries, keys], additive: 0 keeps a key, the dtype's minimum drops it
    scaling: factor on the scores, 1/sqrt(head_dim) by default
    """
    if attention_mask is not None:
        attention_mask = attention_mask.bool()  # bug
    return F.scaled_dot_product_attention(query, key, value, attn_mask=attention_mask, scale=scaling)
