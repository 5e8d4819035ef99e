# === scale-missing
def scaled_dot_product_attention(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return weights @ v, weights


# === scale-not-rooted: einsum
def scaled_dot_product_attention(q, k, v):
    scores = torch.einsum("...qd,...kd->...qk", q, k) / q.shape[-1]
    weights = scores.softmax(-1)
    return torch.einsum("...qk,...kd->...qd", weights, v), weights


# === softmax-over-queries
def scaled_dot_product_attention(q, k, v):
    scores = q @ k.mT / math.sqrt(q.size(-1))
    weights = F.softmax(scores, dim=-2)
    return weights @ v, weights


# === softmax-over-heads: counted from the front
def scaled_dot_product_attention(q, k, v):
    weights = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=1)
    return weights @ v, weights


# === scale-wrong-width: the wrong axis
def scaled_dot_product_attention(q, k, v):
    weights = torch.softmax(torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(k.size(-2)), dim=-1)
    return torch.matmul(weights, v), weights


# === scale-after-softmax
def scaled_dot_product_attention(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1) / math.sqrt(q.size(-1))
    return weights @ v, weights


# === softmax-without-max: the exponential by hand
def scaled_dot_product_attention(q, k, v):
    e = torch.exp(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)))
    weights = e / e.sum(dim=-1, keepdim=True)
    return weights @ v, weights


# === softmax-missing
def scaled_dot_product_attention(q, k, v):
    weights = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    return weights @ v, weights


# === softmax-over-batch: the first axis
def scaled_dot_product_attention(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=0)
    return weights @ v, weights


# === sizes-unchecked
def scaled_dot_product_attention(q, k, v):
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights @ v, weights


# === assertion-in-place-of-error
def scaled_dot_product_attention(q, k, v):
    assert q.size(-1) == k.size(-1)
    assert k.size(-2) == v.size(-2)
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights @ v, weights


# === value-count-unchecked
def scaled_dot_product_attention(q, k, v):
    if q.shape[-1] != k.shape[-1]:
        raise ValueError("d_k")
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights @ v, weights


# === key-width-unchecked
def scaled_dot_product_attention(q, k, v):
    if k.shape[-2] != v.shape[-2]:
        raise ValueError("T_k")
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights @ v, weights


# === four-axes-demanded: letters of einsum for every axis
def scaled_dot_product_attention(q, k, v):
    if q.size(-1) != k.size(-1) or k.size(-2) != v.size(-2):
        raise ValueError("sizes")
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === four-axes-demanded: axis 3
def scaled_dot_product_attention(q, k, v):
    if q.size(-1) != k.size(-1) or k.size(-2) != v.size(-2):
        raise ValueError("sizes")
    weights = torch.softmax(q @ k.transpose(2, 3) / math.sqrt(q.size(-1)), dim=3)
    return weights @ v, weights


# === weights-missing: the fused call
def scaled_dot_product_attention(q, k, v):
    if q.size(-1) != k.size(-1) or k.size(-2) != v.size(-2):
        raise ValueError("sizes")
    return F.scaled_dot_product_attention(q, k, v)


# === outputs-swapped
def scaled_dot_product_attention(q, k, v):
    if q.size(-1) != k.size(-1) or k.size(-2) != v.size(-2):
        raise ValueError("sizes")
    weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)
    return weights, weights @ v
