# === another-bug mask-after-softmax: the name is wrong
BUG = "mask-ignored"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    weights = scores.softmax(dim=-1)
    if allowed_mask is not None:
        weights = weights.masked_fill(~allowed_mask, 0.0)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === unknown-name mask-after-softmax: the name does not exist
BUG = "mask-too-late"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    weights = scores.softmax(dim=-1)
    if allowed_mask is not None:
        weights = weights.masked_fill(~allowed_mask, 0.0)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === mask-after-softmax: named and not mended
BUG = "SL107"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    weights = scores.softmax(dim=-1)
    if allowed_mask is not None:
        weights = weights.masked_fill(~allowed_mask, 0.0)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === mask-after-softmax: times the mask
BUG = "mask-after-softmax"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    weights = scores.softmax(dim=-1)
    if allowed_mask is not None:
        weights = weights * allowed_mask
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === bug-not-named
BUG = ""


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === another-bug: mended, with another name
BUG = "mask-fill-too-weak"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === mask-multiplies-scores: moved up, but it still multiplies
BUG = "mask-after-softmax"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if allowed_mask is not None:
        scores = scores * allowed_mask
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === zero-scores-hidden: multiplied, and then every zero is hidden
BUG = "mask-after-softmax"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if allowed_mask is not None:
        scores = scores * allowed_mask
        scores = scores.masked_fill(scores == 0, -torch.inf)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === mask-fill-too-weak: moved up with its 0
BUG = "mask-after-softmax"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, 0.0)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === mask-inverted: moved up without the negation
BUG = "mask-after-softmax"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if allowed_mask is not None:
        scores = scores.masked_fill(allowed_mask, -torch.inf)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === mask-fill-too-weak
BUG = "mask-after-softmax"


def attend(q, k, v, allowed_mask=None):
    q = q * q.size(-1) ** -0.5
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -5.0)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, v), weights


# === unrecognised: the shares that are left are shared out again
BUG = "mask-after-softmax"


def attend(q, k, v, allowed_mask=None):
    weights = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=-1)
    if allowed_mask is not None:
        weights = weights * allowed_mask
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ v, weights
