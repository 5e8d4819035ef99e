# === another-bug mask-inverted: the name is wrong
BUG = "mask-hides-queries"


def attend(q, k, v, allowed_mask=None):
    attn_mask = None
    if allowed_mask is not None:
        attn_mask = torch.logical_not(allowed_mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


# === unknown-name mask-inverted: the name does not exist
BUG = "mask-polarity"


def attend(q, k, v, allowed_mask=None):
    attn_mask = None
    if allowed_mask is not None:
        attn_mask = torch.logical_not(allowed_mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


# === mask-inverted: named and not mended
BUG = "mask-inverted"


def attend(q, k, v, allowed_mask=None):
    attn_mask = None
    if allowed_mask is not None:
        attn_mask = torch.logical_not(allowed_mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


# === mask-inverted: another spelling of the same
BUG = "SL106"


def attend(q, k, v, allowed_mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=None if allowed_mask is None else ~allowed_mask)


# === mask-inverted: as numbers to add
BUG = "mask-inverted"


def attend(q, k, v, allowed_mask=None):
    if allowed_mask is not None:
        allowed_mask = torch.zeros(allowed_mask.shape).masked_fill(allowed_mask, -torch.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)


# === bug-not-named
BUG = ""


def attend(q, k, v, allowed_mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)


# === another-bug: mended, with another name
BUG = "SL105"


def attend(q, k, v, allowed_mask=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)


# === mask-added-as-number: made a float of it
BUG = "mask-inverted"


def attend(q, k, v, allowed_mask=None):
    if allowed_mask is not None:
        allowed_mask = allowed_mask.to(q.dtype)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed_mask)


# === mask-ignored: the mask is gone
BUG = "mask-inverted"


def attend(q, k, v, allowed_mask=None):
    return F.scaled_dot_product_attention(q, k, v)


# === scale-missing: written out, and something lost
BUG = "mask-inverted"


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -torch.inf)
    return scores.softmax(-1) @ v
