# === polarity-not-turned: turned round twice
def to_blocked_mask(allowed_mask):
    blocked_mask = ~allowed_mask.logical_not()
    assert allowed_mask.diagonal().all(), "a token is hidden from itself: is True = blocked already?"
    return blocked_mask


def to_key_padding_mask(token_ids, pad_id=0):
    return token_ids == pad_id


# === diagonal-not-checked
def to_blocked_mask(allowed_mask):
    return torch.logical_not(allowed_mask)


# === diagonal-not-checked: the assertion is a tuple, which is always true
def to_blocked_mask(allowed_mask):
    assert (allowed_mask.diagonal().all(), "the diagonal")
    return ~allowed_mask


# === only-empty-rows-checked
def to_blocked_mask(allowed_mask):
    blocked = ~allowed_mask
    assert not blocked.all(dim=-1).any()
    return blocked


# === diagonal-demanded-blocked: looked at before it is turned round
def to_blocked_mask(allowed_mask):
    for i in range(len(allowed_mask)):
        assert not allowed_mask[i, i]
    return allowed_mask == False


# === one-visible-is-enough
def to_blocked_mask(allowed_mask):
    blocked = ~allowed_mask
    assert not torch.diagonal(blocked).all()
    return blocked


# === another-error
def to_blocked_mask(allowed_mask):
    if not bool(allowed_mask.diagonal().all()):
        raise ValueError("diagonal")
    return ~allowed_mask


# === numbers-in-place-of-bool: arithmetic with 0 and 1
def to_blocked_mask(allowed_mask):
    assert torch.diag(allowed_mask).all()
    return 1 - allowed_mask.int()


# === additive-in-place-of-bool
def to_blocked_mask(allowed_mask):
    assert torch.diag(allowed_mask).all()
    return torch.where(allowed_mask, 0.0, -math.inf)


# === made-anew
def to_blocked_mask(allowed_mask):
    T = allowed_mask.shape[0]
    assert torch.diag(allowed_mask).all()
    return nn.Transformer.generate_square_subsequent_mask(T).isinf()


# === real-tokens-blocked
def to_blocked_mask(allowed_mask):
    blocked_mask = ~allowed_mask
    assert not blocked_mask.diagonal().any(), "a token is hidden from itself: is True = blocked already?"
    return blocked_mask


def to_key_padding_mask(token_ids, pad_id=0):
    return token_ids != pad_id


# === axes-for-heads-added: the mask of lesson 3, turned round
def to_blocked_mask(allowed_mask):
    blocked_mask = ~allowed_mask
    assert not blocked_mask.diagonal().any(), "a token is hidden from itself: is True = blocked already?"
    return blocked_mask


def to_key_padding_mask(token_ids, pad_id=0):
    return ~(token_ids != pad_id)[:, None, None, :]


# === pad-id-ignored
def to_blocked_mask(allowed_mask):
    blocked_mask = ~allowed_mask
    assert not blocked_mask.diagonal().any(), "a token is hidden from itself: is True = blocked already?"
    return blocked_mask


def to_key_padding_mask(token_ids, pad_id=0):
    return torch.logical_not(token_ids)


# === caller-mask-changed: the mask of the caller is turned round
def to_blocked_mask(allowed_mask):
    blocked_mask = allowed_mask.logical_not_()
    assert not blocked_mask.diagonal().any(), "a token is hidden from itself: is True = blocked already?"
    return blocked_mask


def to_key_padding_mask(token_ids, pad_id=0):
    return token_ids == pad_id
