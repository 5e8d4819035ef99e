# === softmax-not-exponential
def soft_lookup(query, keys, values):
    scores = torch.einsum("td,d->t", keys, query)
    weights = scores / scores.sum()
    return weights @ values, weights


# === hardest-key-only: with an index
def soft_lookup(query, keys, values):
    best = (keys * query).sum(-1).argmax()
    weights = torch.zeros(len(keys))
    weights[best] = 1.0
    return values[best], weights


# === softmax-missing
def soft_lookup(query, keys, values):
    weights = keys @ query
    return weights @ values, weights


# === values-mixed-by-keys
def soft_lookup(query, keys, values):
    weights = F.softmax(keys @ query, dim=0)
    return weights @ keys, weights


# === mean-of-values: a softmax over an axis of size one
def soft_lookup(query, keys, values):
    scores = (keys @ query)[:, None]
    weights = torch.softmax(scores, dim=-1)[:, 0]
    weights = weights / weights.sum()
    return weights @ values, weights


# === scale-applied
def soft_lookup(query, keys, values):
    scores = keys @ query / math.sqrt(keys.shape[1])
    weights = scores.exp() / scores.exp().sum()
    return weights @ values, weights


# === outputs-swapped
def soft_lookup(query, keys, values):
    weights = torch.softmax(keys @ query, dim=-1)
    return weights, weights @ values


# === not-finite: the exponential of large numbers
def soft_lookup(query, keys, values):
    weights = torch.exp(keys @ query)
    weights = weights / weights.sum()
    return weights @ values, weights
