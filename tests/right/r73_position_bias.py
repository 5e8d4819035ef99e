"""A float bias of the caller is added after scaling."""



def biased_attention(q, k, v, attn_bias=None):
    """q, k, v: (B, H, T, d); attn_bias: float, broadcastable to (B, H, T_q, T_k), added to the scaled scores."""
    attn = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if attn_bias is not None:
        attn = attn + attn_bias.to(attn.dtype)
    return attn.softmax(dim=-1) @ v
