"""Report b011: https://github.com/huggingface/pytorch-image-models/pull/2236

What is wrong: the mask zeroes probabilities after the softmax and nothing renormalises the rest.
"""

from torch import Tensor


def masked_attention(q: Tensor, k: Tensor, v: Tensor, attn_mask: Tensor | None = None) -> Tensor:
    """Attention over (batch, heads, tokens, head_dim).

    attn_mask: bool, broadcastable to (batch, heads, queries, keys), True where attention is allowed
    """
    q = q * q.shape[-1] ** -0.5
    attn = q @ k.transpose(-2, -1)
    attn = attn.softmax(dim=-1)
    if attn_mask is not None:
        attn = attn * attn_mask  # bug
    return attn @ v
