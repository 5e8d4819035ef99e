"""Report b025: https://github.com/lucidrains/flamingo-pytorch/issues/10

What is wrong: the fill that should blank text without an image returns a copy that is dropped.
"""

import torch
from torch import einsum


def masked_cross_attention(q, k, v, media_mask):
    """Let text look at images.

    q: (b, h, text, d)   k, v: (b, h, media, d)
    media_mask: (b, text, media) bool, True = this text token may look at this image.
    Rows with no visible key return zeros: text without an image receives nothing.
    """
    sim = einsum("b h i d, b h j d -> b h i j", q * q.shape[-1] ** -0.5, k)
    sim = sim.masked_fill(~media_mask[:, None], -torch.finfo(sim.dtype).max)
    attn = sim.softmax(dim=-1)
    out = einsum("b h i j, b h j d -> b h i d", attn, v)
    text_without_media = ~media_mask.any(dim=-1)
    out.masked_fill(text_without_media[:, None, :, None], 0.0)  # bug
    return out
