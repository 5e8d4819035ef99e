# === another-bug softmax-over-queries: the name is wrong
BUG = "scale-missing"


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-2) @ v


# === unknown-name softmax-over-queries: the name does not exist
BUG = "wrong-axis"


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-2) @ v


# === softmax-over-queries: named and not mended
BUG = "softmax-over-queries"


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=2) @ v


# === softmax-over-heads: mended to another axis
BUG = "SL211"


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=1) @ v


# === bug-not-named: mended, without the name
BUG = ""


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v


# === another-bug: mended, with another name
BUG = "softmax-over-heads"


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v


# === scale-missing: mended, and something lost
BUG = "softmax-over-queries"


def attend(q, k, v, allowed_mask=None):
    scores = q @ k.transpose(-2, -1)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v
