# === mask-after-softmax
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    if allowed_mask is not None:
        weights = weights * allowed_mask
    return weights @ v, weights


# === mask-after-softmax: masked_fill
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    weights = torch.softmax(scores, dim=-1)
    if allowed_mask is not None:
        weights = weights.masked_fill(~allowed_mask, 0.0)
    return weights @ v, weights


# === mask-inverted
def masked_attention(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === mask-added-as-number
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores + allowed_mask
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === mask-multiplies-scores
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores * allowed_mask.to(scores.dtype)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === mask-fill-too-weak: -10
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -10.0)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === mask-ignored: masked_fill returns and does not write
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === scale-missing
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.mT
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === softmax-over-queries
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None and not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-2)
    return weights @ v, weights


# === empty-row-nan
def masked_attention(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === empty-row-zeroed
def masked_attention(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    weights = weights.nan_to_num()
    return weights @ v, weights


# === empty-row-uniform: a finite fill
def masked_attention(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === mask-demanded
def masked_attention(q, k, v, allowed_mask=None):
    if not allowed_mask.any(dim=-1).all():
        raise ValueError('a query may look nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === assertion-in-place-of-error
def masked_attention(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        assert allowed_mask.any(dim=-1).all()
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === plain-padding-refused
def masked_attention(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        if not allowed_mask.any(dim=-2).all():
            raise ValueError('a query may look nowhere')
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# === caller-mask-changed: in place
def masked_attention(q, k, v, allowed_mask=None):
    if allowed_mask is not None:
        if not allowed_mask.any(dim=-1).all():
            raise ValueError('nowhere')
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        allowed_mask.logical_not_()
        scores = scores.masked_fill(allowed_mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights
