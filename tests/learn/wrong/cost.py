# === factor-wrong: memory is thought to grow with the tokens
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 2,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === factor-wrong: the width is thought to be in the scores
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 0.5,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === factor-wrong: narrower heads are thought to balance
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 1,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === not-predicted
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 0,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === square-missing
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === everything-squared
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return (batch * heads * tokens) ** 2


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === heads-missing: one map for a sample
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return sum(tokens**2 for _ in range(batch))


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === half-counted: the causal triangle
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * sum(i + 1 for i in range(tokens))


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === bytes-as-float
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits / 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === bits-in-place-of-bytes
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === bits-ignored: the size of a default tensor
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * torch.tensor(1.0).element_size()


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) <= budget:
        tokens += 1
    return tokens


# === first-that-does-not-fit
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 1
    while score_bytes(batch, heads, tokens, bits) <= budget:
        tokens += 1
    return tokens


# === exact-fit-refused
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    tokens = 0
    while score_bytes(batch, heads, tokens + 1, bits) < budget:
        tokens += 1
    return tokens


# === rounded-up
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    return math.ceil((budget * 8 // bits / batch / heads) ** 0.5)


# === length-as-float
# When all else stays as it is, by what factor does the number of scores grow (1 = it stays) ...
FACTORS = {
    "twice the tokens": 4,
    "half the width d_model, with as many heads": 1,
    "twice the heads, with the same d_model": 2,
    "a quarter of the tokens in a batch four times as large": 0.25,
}


def score_count(batch, heads, tokens):
    return batch * heads * tokens * tokens


def score_bytes(batch, heads, tokens, bits=32):
    return score_count(batch, heads, tokens) * bits // 8


def longest(budget, batch, heads, bits=32):
    return math.sqrt(budget * 8 // bits // (batch * heads))
