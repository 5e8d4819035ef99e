# === future-visible
def make_causal_allowed_mask(seq_len):
    return torch.triu(torch.ones(seq_len, seq_len)).bool()[None, None]


# === mask-polarity-inverted: comparing positions
def make_causal_allowed_mask(seq_len):
    i = torch.arange(seq_len)
    return (i[None, :] > i[:, None]).view(1, 1, seq_len, seq_len)


# === self-hidden
def make_causal_allowed_mask(seq_len):
    i = torch.arange(seq_len)
    return (i[None, :] < i[:, None]).view(1, 1, seq_len, seq_len)


# === causal-off-by-one
def make_causal_allowed_mask(seq_len):
    return torch.ones(1, 1, seq_len, seq_len, dtype=torch.bool).tril(1)


# === nothing-hidden: the result of tril is thrown away
def make_causal_allowed_mask(seq_len):
    mask = torch.ones(1, 1, seq_len, seq_len, dtype=torch.bool)
    mask.tril()
    return mask


# === leading-axes-missing
def make_causal_allowed_mask(seq_len):
    return torch.tril(torch.ones(seq_len, seq_len, dtype=torch.bool))


# === one-leading-axis
def make_causal_allowed_mask(seq_len):
    return torch.tril(torch.ones(1, seq_len, seq_len, dtype=torch.bool))


# === additive-in-place-of-bool
def make_causal_allowed_mask(seq_len):
    return torch.triu(torch.full((seq_len, seq_len), float("-inf")), diagonal=1)[None, None]


# === numbers-in-place-of-bool
def make_causal_allowed_mask(seq_len):
    return torch.tril(torch.ones(1, 1, seq_len, seq_len))


# === future-visible: a loop with the comparison the wrong way round
def make_causal_allowed_mask(seq_len):
    rows = [[j >= i for j in range(seq_len)] for i in range(seq_len)]
    return torch.tensor(rows)[None, None]
