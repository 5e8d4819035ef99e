"""Report b119: https://github.com/esceptico/perceiver-io/issues/9

What is wrong: the code divides by d**-0.5, which multiplies by the root.
"""

import torch


def latent_cross_attention(latents_q, inputs_k, inputs_v):
    """Latents look at the inputs.

    latents_q: (B, H, N, d)   inputs_k: (B, H, M, d)   inputs_v: (B, H, M, d_v)
    """
    scale = latents_q.shape[-1] ** -0.5
    scores = torch.einsum("b h n d, b h m d -> b h n m", latents_q, inputs_k) / scale  # bug
    attention = scores.softmax(dim=-1)
    return torch.einsum("b h n m, b h m d -> b h n d", attention, inputs_v)
