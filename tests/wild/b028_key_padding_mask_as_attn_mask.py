"""Report b028: https://github.com/pytorch/pytorch/pull/170415

What is wrong: True means padding in the mask that comes in, and keep in the call it is handed to.
"""

import torch.nn.functional as F


def migrated_attention(q, k, v, key_padding_mask=None):
    """Attention with the masks of a multi-head module, moved to the fused call.

    q, k, v: (N, H, L, E)
    key_padding_mask: (N, S) bool, True = padding, to be ignored
    """
    attn_mask = None
    if key_padding_mask is not None:
        attn_mask = key_padding_mask[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)  # bug
