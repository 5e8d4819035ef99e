"""Report b136: https://github.com/facebookresearch/xformers/issues/677

What is wrong: (B, T, H, d) tensors are multiplied as they are: heads look at heads within one token.
"""



def reference_attention(q, k, v):
    """Self-attention to compare a memory-efficient kernel with.

    q, k, v: [B, T, H, d]; returns [B, T, H, d]
    """
    scale = 1.0 / q.shape[-1] ** 0.5
    attn = (q * scale) @ k.transpose(-2, -1)  # bug
    attn = attn.softmax(-1)
    return attn @ v
