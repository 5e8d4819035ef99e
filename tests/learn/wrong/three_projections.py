# === projection-reused
def self_lookup(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_q, x @ w_v
    weights = torch.softmax(q @ k.T, dim=-1)
    return weights @ v, weights


# === keys-reused-for-queries: einsum
def self_lookup(x, w_q, w_k, w_v):
    k = torch.einsum("td,dk->tk", x, w_k)
    v = torch.einsum("td,dv->tv", x, w_v)
    weights = torch.softmax(torch.einsum("ik,jk->ij", k, k), dim=1)
    return torch.einsum("ij,jv->iv", weights, v), weights


# === values-from-key-matrix: a loop
def self_lookup(x, w_q, w_k, w_v):
    k = x @ w_k
    rows, maps = [], []
    for token in x:
        shares = torch.softmax(k @ (token @ w_q), dim=0)
        maps.append(shares)
        rows.append(shares @ k)
    return torch.stack(rows), torch.stack(maps)


# === value-unprojected
def self_lookup(x, w_q, w_k, w_v):
    weights = F.softmax((x @ w_q) @ (x @ w_k).mT, dim=-1)
    return weights @ x, weights


# === queries-unprojected
def self_lookup(x, w_q, w_k, w_v):
    weights = torch.softmax(x @ (x @ w_k).T, dim=-1)
    return weights @ (x @ w_v), weights


# === keys-unprojected
def self_lookup(x, w_q, w_k, w_v):
    weights = torch.softmax((x @ w_q) @ x.T, dim=-1)
    return weights @ (x @ w_v), weights


# === projections-transposed: as if they were weights of nn.Linear
def self_lookup(x, w_q, w_k, w_v):
    q, k, v = F.linear(x, w_q), F.linear(x, w_k), F.linear(x, w_v)
    weights = torch.softmax(q @ k.T, dim=-1)
    return weights @ v, weights


# === scores-transposed
def self_lookup(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = torch.softmax(k @ q.transpose(0, 1), dim=-1)
    return weights @ v, weights


# === softmax-over-queries: a softmax by hand over the wrong axis
def self_lookup(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    e = torch.exp(q @ k.T)
    weights = e / e.sum(dim=0, keepdim=True)
    return weights @ v, weights


# === softmax-missing
def self_lookup(x, w_q, w_k, w_v):
    weights = torch.matmul(x @ w_q, (x @ w_k).t())
    return torch.matmul(weights, x @ w_v), weights


# === scale-applied
def self_lookup(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = torch.softmax(q @ k.T / math.sqrt(k.shape[-1]), dim=-1)
    return weights @ v, weights


# === weights-transposed: the letters of einsum
def self_lookup(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = torch.softmax(torch.einsum("id,jd->ij", q, k), dim=-1)
    return torch.einsum("ji,jd->id", weights, v), weights


# === outputs-swapped
def self_lookup(x, w_q, w_k, w_v):
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    weights = torch.softmax(q @ k.T, dim=-1)
    return weights, weights @ v
