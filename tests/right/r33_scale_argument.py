"""The scale may be given."""



def attention(q, k, v, scale=None):
    """q, k, v: (B, H, T, d); scale: factor on the scores, 1/sqrt(d) when not given."""
    if scale is None:
        scale = q.shape[-1] ** -0.5
    return ((q @ k.mT) * scale).softmax(dim=-1) @ v
