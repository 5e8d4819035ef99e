# === one-rule-is-enough
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    return causal | real


# === one-rule-is-enough: booleans are added
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal + real
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === empty-row-let-through
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    return causal & real


# === empty-row-let-through: the check is never true
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = torch.logical_and(causal, real)
    if allowed.shape[-1] == 0:
        raise ValueError('empty')
    return allowed


# === only-whole-samples-checked
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    if (token_ids == pad_id).all(dim=1).any():
        raise ValueError('a sample is all padding')
    return causal & real


# === only-all-false-checked: any without an axis
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    if not allowed.any():
        raise ValueError('nothing is allowed')
    return allowed


# === plain-padding-refused: the axis before the last
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    if not allowed.any(dim=-2).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === padding-missing
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()
    return causal.expand(len(token_ids), 1, t, t)


# === causal-missing
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    allowed = (token_ids != pad_id)[:, None, None].repeat(1, 1, t, 1)
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === future-visible: triu
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).triu()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === plain-padding-refused: the padding lies along the queries
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, :, None]
    allowed = causal & real
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === mask-polarity-inverted
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return ~allowed


# === pad-id-ignored
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != 0)[:, None, None, :]
    allowed = causal * real
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === head-axis-missing: three axes
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    allowed = torch.ones(t, t).tril().bool() & (token_ids != pad_id)[:, None]
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === empty-row-sees-itself
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    empty = ~allowed.any(-1, keepdim=True)
    return torch.where(empty, torch.eye(t, dtype=torch.bool), allowed)


# === assertion-in-place-of-error
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    assert allowed.any(-1).all(), 'a row may look nowhere'
    return allowed


# === message-without-place
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    if not allowed.any(dim=-1).all():
        raise ValueError('a row may look nowhere')
    return allowed


# === message-without-place: only the sample
def make_decoder_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]
    real = (token_ids != pad_id)[:, None, None, :]
    allowed = causal & real
    for b, rows in enumerate(allowed[:, 0].tolist()):
        if not all(any(row) for row in rows):
            raise ValueError(f'sample {b} has an empty row')
    return allowed


# === mask-hides-queries: and no check
def make_decoder_mask(token_ids, pad_id=0):
    i = torch.arange(token_ids.size(1))
    return (i[:, None] >= i) & (token_ids != pad_id)[:, None, :, None]
