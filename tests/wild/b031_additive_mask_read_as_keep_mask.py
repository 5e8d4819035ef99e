"""Report b031: https://github.com/harvard-edge/cs249r_book/pull/1785

What is wrong: the mask is additive, the consumer computes (1 - mask) * -1e9 as if 1 meant keep: visible scores drown.
"""

import torch


def block_attention(q, k, v, mask):
    """q, k, v: (B, H, T, d).

    mask: (T_q, T_k) additive, 0 where a token may look and -inf where it may not
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q @ k.transpose(-2, -1)).to(wide) / q.shape[-1] ** 0.5
    scores = scores + (1.0 - mask.to(wide)) * -1e9  # bug
    return torch.softmax(scores, dim=-1).to(v.dtype) @ v
