# === mask-polarity-inverted
def make_padding_allowed_mask(token_ids, pad_id=0):
    return (token_ids == pad_id)[:, None, None, :]


# === mask-polarity-inverted: two negations
def make_padding_allowed_mask(token_ids, pad_id=0):
    return ~token_ids.ne(pad_id).view(token_ids.size(0), 1, 1, -1)


# === mask-hides-queries
def make_padding_allowed_mask(token_ids, pad_id=0):
    return (token_ids != pad_id).unsqueeze(1).unsqueeze(-1)


# === padding-along-heads
def make_padding_allowed_mask(token_ids, pad_id=0):
    return (token_ids != pad_id)[..., None, None]


# === middle-axes-missing
def make_padding_allowed_mask(token_ids, pad_id=0):
    return token_ids != pad_id


# === one-middle-axis: one unsqueeze
def make_padding_allowed_mask(token_ids, pad_id=0):
    return torch.ne(token_ids, pad_id).unsqueeze(1)


# === batch-not-first
def make_padding_allowed_mask(token_ids, pad_id=0):
    return (token_ids != pad_id)[None, None]


# === pad-id-ignored: the truth of a number
def make_padding_allowed_mask(token_ids, pad_id=0):
    return token_ids.bool()[:, None, None, :]


# === only-larger-ids-real
def make_padding_allowed_mask(token_ids, pad_id=0):
    return (token_ids > pad_id).reshape(len(token_ids), 1, 1, -1)


# === padding-side-assumed: from lengths
def make_padding_allowed_mask(token_ids, pad_id=0):
    lengths = (token_ids != pad_id).sum(dim=1)
    return (torch.arange(token_ids.shape[1])[None, :] < lengths[:, None])[:, None, None]


# === mask-shared-across-batch: a loop that keeps the first
def make_padding_allowed_mask(token_ids, pad_id=0):
    row = torch.tensor([t != pad_id for t in token_ids[0].tolist()])
    return row.expand(len(token_ids), -1)[:, None, None, :]


# === numbers-in-place-of-bool: where
def make_padding_allowed_mask(token_ids, pad_id=0):
    return torch.where(token_ids == pad_id, 0.0, 1.0)[:, None, None]


# === integers-in-place-of-bool
def make_padding_allowed_mask(token_ids, pad_id=0):
    return (token_ids != pad_id).int()[:, None, None]


# === additive-in-place-of-bool
def make_padding_allowed_mask(token_ids, pad_id=0):
    mask = torch.zeros_like(token_ids, dtype=torch.float32)
    mask[token_ids == pad_id] = float('-inf')
    return mask[:, None, None, :]


# === mask-for-every-query: repeat
def make_padding_allowed_mask(token_ids, pad_id=0):
    t = token_ids.size(1)
    return (token_ids != pad_id)[:, None, None].repeat(1, 1, t, 1)
