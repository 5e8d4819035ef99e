"""Report b099: https://github.com/facebookresearch/fairseq/issues/3575

What is wrong: the fill -1e8 does not fit in float16, so the call raises there.
"""

import torch


def incremental_attention(q, k, v, key_padding_mask=None):
    """q, k, v: (bsz * num_heads, len, head_dim), float32 or float16.

    key_padding_mask: (bsz * num_heads, src_len) bool, True = padding
    """
    attn_weights = torch.bmm(q * q.size(-1) ** -0.5, k.transpose(1, 2))
    if key_padding_mask is not None:
        attn_weights = attn_weights.masked_fill(key_padding_mask.unsqueeze(1), -1e8)  # bug
    attn_probs = torch.softmax(attn_weights, dim=-1)
    return torch.bmm(attn_probs, v)
