# === another-bug mask-fill-too-weak: the name is wrong
BUG = "mask-after-softmax"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-9.0, dtype=scores.dtype))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === unknown-name mask-fill-too-weak: the name does not exist
BUG = "gradient-leak"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-9.0, dtype=scores.dtype))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === mask-fill-too-weak: named and not mended
BUG = "mask-fill-too-weak"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-9.0, dtype=scores.dtype))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === mask-fill-too-weak: a larger number that large scores still reach
BUG = "mask-fill-too-weak"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-50.0, dtype=scores.dtype))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === mask-inverted: mended, and turned round
BUG = "mask-fill-too-weak"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, torch.tensor(-torch.inf, dtype=scores.dtype), scores)
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === mask-after-softmax: the weights are cut off in place of the scores
BUG = "mask-fill-too-weak"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        pass
    weights = scores.softmax(dim=-1)
    if mask is not None:
        weights = weights * mask
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === mask-multiplies-scores
BUG = "mask-fill-too-weak"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = scores * mask
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === bug-not-named: mended, without the name
BUG = ""


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights


# === another-bug: mended, with another name
BUG = "gradient-wrong"


def attention(query, key, value, mask=None):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = torch.where(mask, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
    weights = scores.softmax(dim=-1)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value), weights
