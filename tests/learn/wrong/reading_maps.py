# === columns-summed: with allclose
def rows_sum_to_one(weights):
    sums = weights.sum(dim=-2)
    return torch.allclose(sums, torch.ones_like(sums), atol=1e-5)


# === everything-summed
def rows_sum_to_one(weights):
    total = weights.sum() / weights[..., 0].numel()
    return abs(total.item() - 1) < 1e-5


# === one-row-is-enough
def rows_sum_to_one(weights):
    return any(abs(row.sum().item() - 1) < 1e-5 for row in weights.reshape(-1, weights.shape[-1]))


# === no-tolerance
def rows_sum_to_one(weights):
    return bool((weights.sum(-1) == 1.0).all())


# === too-much-tolerance
def rows_sum_to_one(weights):
    sums = torch.einsum("...ij->...i", weights)
    return torch.allclose(sums, torch.ones_like(sums), atol=0.01)


# === sums-rounded
def rows_sum_to_one(weights):
    return bool((torch.round(weights.sum(-1)) == 1).all())


# === only-too-much-seen
def rows_sum_to_one(weights):
    return weights.sum(-1).max().item() <= 1 + 1e-5


# === first-map-only
def rows_sum_to_one(weights):
    while weights.dim() > 2:
        weights = weights[0]
    return all(abs(row.sum().item() - 1) < 1e-5 for row in weights)


# === wrong-values: a mask of booleans in place of one
def rows_sum_to_one(weights):
    return (weights.sum(-1) - 1).abs() < 1e-5


# === past-looked-at
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return bool((weights.tril(-1) == 0).all())


# === own-key-counts-as-future
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    ahead = torch.ones(weights.shape[-2:]).triu().bool()
    return bool((weights[..., ahead] == 0).all())


# === next-key-allowed: with a loop
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    T = weights.shape[-1]
    return all(bool((weights[..., i, j] == 0).all()) for i in range(T) for j in range(i + 2, T))


# === traces-pass
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return torch.allclose(weights.triu(1), torch.zeros(()))


# === one-zero-is-enough: any in place of all
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    ahead = torch.ones(weights.shape[-2:]).triu(1).bool()
    return bool((weights[..., ahead] == 0).any())


# === future-of-first-map-only
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    w = weights.reshape(-1, *weights.shape[-2:])[0]
    return not torch.triu(w, diagonal=1).any()


# === rows-of-padding
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return not weights.triu(1).any()


def padding_is_zero(weights, real):
    return bool((weights[..., ~real, :] == 0).all())


# === real-keys-looked-at
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return not weights.triu(1).any()


def padding_is_zero(weights, real):
    return bool((weights.masked_fill(~real, 0) == 0).all())


# === rows-of-padding-ignored
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return not weights.triu(1).any()


def padding_is_zero(weights, real):
    both = real[:, None] & ~real[None, :]
    return not bool((weights * both).any())


# === one-padded-key-is-enough
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return not weights.triu(1).any()


def padding_is_zero(weights, real):
    hidden = weights[..., ~real]
    return bool(torch.any(hidden == 0))


# === last-key-only
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return not weights.triu(1).any()


def padding_is_zero(weights, real):
    return bool(real[-1] or (weights[..., -1] == 0).all())


# === traces-on-padding-pass
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return not weights.triu(1).any()


def padding_is_zero(weights, real):
    return bool(torch.isclose(weights[..., ~real], torch.zeros(())).all())


# === padding-of-first-map-only
def rows_sum_to_one(weights):
    return torch.allclose(weights.sum(-1), torch.ones(()), rtol=0, atol=1e-5)


def future_is_zero(weights):
    return not weights.triu(1).any()


def padding_is_zero(weights, real):
    w = weights if weights.dim() == 2 else weights.view(-1, *weights.shape[-2:])[0]
    return bool((w[:, ~real] == 0).all())
