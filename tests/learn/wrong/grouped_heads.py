# === kv-heads-tiled
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return heads.repeat(1, num_heads // shared, 1, 1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === kv-heads-tiled: the new axis on the wrong side
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    B, _, T, d = heads.shape
    return heads[:, None].expand(B, num_heads // shared, shared, T, d).reshape(B, num_heads, T, d)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === kv-heads-tiled: copies behind each other
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return torch.cat([heads for _ in range(num_heads // shared)], dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === tokens-repeated: the axis of another layout
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return heads.repeat_interleave(num_heads // shared, dim=2)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === too-many-repeated
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return heads.repeat_interleave(num_heads, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === sharing-unchecked
def spread_heads(heads, num_heads):
    shared = heads.size(1)

    return heads.repeat_interleave(num_heads // shared, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === another-error
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    assert num_heads % shared == 0
    return heads.repeat_interleave(num_heads // shared, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === only-first-head-used
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return torch.stack([heads[:, 0]] * num_heads, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === scale-wrong-width: the width of the whole token
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return heads.repeat_interleave(num_heads // shared, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1) * q.size(1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === kv-heads-tiled: the function is right, and not used
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return heads.repeat_interleave(num_heads // shared, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = k.repeat(1, q.size(1) // k.size(1), 1, 1)
    v = v.repeat(1, q.size(1) // v.size(1), 1, 1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


# === mask-inverted
def spread_heads(heads, num_heads):
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return heads.repeat_interleave(num_heads // shared, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)
