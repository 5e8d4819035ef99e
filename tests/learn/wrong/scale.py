# === scale-missing
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1)


# === scale-not-rooted: einsum
def scaled_scores(q, k):
    return torch.einsum("...qd,...kd->...qk", q, k) / k.shape[-1]


# === scale-inverted
def scaled_scores(q, k):
    return torch.matmul(q, k.transpose(-2, -1)) * math.sqrt(q.shape[-1])


# === scale-not-rooted: the root on both sides
def scaled_scores(q, k):
    scale = q.size(-1) ** -0.5
    return (q * scale) @ (k * scale).mT


# === scale-wrong-width: the axis before the last
def scaled_scores(q, k):
    return q @ k.mT / q.shape[-2] ** 0.5


# === scale-counts-keys: the last axis of the scores
def scaled_scores(q, k):
    scores = q @ k.transpose(-2, -1)
    return scores / math.sqrt(scores.size(-1))


# === scale-constant: the number of the page
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) * 0.125


# === cosine-in-place-of-scale
def scaled_scores(q, k):
    q = q / q.norm(dim=-1, keepdim=True)
    k = k / k.norm(dim=-1, keepdim=True)
    return q @ k.transpose(-2, -1)


# === scale-measured
def scaled_scores(q, k):
    scores = q @ k.transpose(-2, -1)
    return scores / scores.std()


# === scores-transposed
def scaled_scores(q, k):
    return k @ q.transpose(-2, -1) / math.sqrt(k.size(-1))


# === softmax-applied
def scaled_scores(q, k):
    return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1)


# === scale-always-on: scaled is not read
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    q, k = torch.randn(samples, 1, d_k), torch.randn(samples, 1, d_k)
    return scaled_scores(q, k).var().item()


# === scale-missing: scaled is not read, the other way
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    q, k = torch.randn(samples, d_k), torch.randn(samples, d_k)
    return (q * k).sum(-1).var()


# === deviation-not-variance
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    q, k = torch.randn(samples, d_k), torch.randn(samples, d_k)
    dots = (q * k).sum(-1) / (d_k**0.5 if scaled else 1)
    return dots.std().item()


# === mean-not-variance
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    q, k = torch.randn(samples, d_k), torch.randn(samples, d_k)
    dots = (q * k).sum(-1) / (d_k**0.5 if scaled else 1)
    return dots.mean().abs().item()


# === inputs-not-unit-variance: numbers between 0 and 1
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    q, k = torch.rand(samples, 1, d_k), torch.rand(samples, 1, d_k)
    dots = scaled_scores(q, k) if scaled else q @ k.mT
    return dots.var().item()


# === not-measured: the theory
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    return 1.0 if scaled else float(d_k)


# === wrong-type: one for each number
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    q, k = torch.randn(samples, d_k), torch.randn(samples, d_k)
    return (q * k).var(dim=0)


# === scale-not-rooted: the scale by hand
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    q, k = torch.randn(samples, d_k), torch.randn(samples, d_k)
    dots = torch.einsum('sd,sd->s', q, k)
    return (dots / d_k if scaled else dots).var().item()


# === not-written: half of it
def scaled_scores(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    raise NotImplementedError
