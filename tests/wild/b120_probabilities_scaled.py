"""Report b120: https://github.com/FrancescoSaverioZuppichini/ViT/issues/2

What is wrong: the scale multiplies the softmax instead of the scores.
"""

import torch.nn.functional as F
from einops import einsum


def image_attention(queries, keys, values):
    """queries, keys, values: (batch, heads, patches, head_dim)."""
    scaling = queries.shape[-1] ** -0.5
    energy = einsum(queries, keys, "b h q d, b h k d -> b h q k")
    att = F.softmax(energy, dim=-1) * scaling  # bug
    return einsum(att, values, "b h q k, b h k d -> b h q d")
