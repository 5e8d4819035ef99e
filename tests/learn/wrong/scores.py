# === scores-transposed
def scores_of(q, k):
    return k @ q.transpose(-2, -1)


# === scores-transposed: the letters of einsum
def scores_of(q, k):
    return torch.einsum("bqd,bkd->bkq", q, k)


# === all-axes-reversed: .T as for one matrix
def scores_of(q, k):
    return q @ k.T


# === view-in-place-of-transpose
def scores_of(q, k):
    b, t_k, d = k.shape
    return torch.bmm(q, k.view(b, d, t_k))


# === batch-summed
def scores_of(q, k):
    return torch.einsum("bqd,bkd->qk", q, k)


# === keys-of-another-sample
def scores_of(q, k):
    return torch.matmul(q, k[0].t())


# === features-not-summed
def scores_of(q, k):
    return q.unsqueeze(2) * k.unsqueeze(1)


# === own-key-only
def scores_of(q, k):
    return (q * k).sum(dim=-1)


# === scale-applied
def scores_of(q, k):
    return torch.bmm(q, k.transpose(1, 2)) * q.shape[-1] ** -0.5


# === softmax-applied: a loop over samples
def scores_of(q, k):
    return torch.stack([F.softmax(one_q @ one_k.T, dim=-1) for one_q, one_k in zip(q, k)])


# === cosine-in-place-of-dot
def scores_of(q, k):
    return F.cosine_similarity(q[:, :, None], k[:, None], dim=-1)


# === distance-in-place-of-dot
def scores_of(q, k):
    return (q[:, :, None] - k[:, None]).pow(2).sum(-1).sqrt()


# === keys-not-transposed: nothing is turned round
def scores_of(q, k):
    return q @ k
