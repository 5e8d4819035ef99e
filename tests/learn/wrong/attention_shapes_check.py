# === nothing-asserted: brackets around condition and words
def check(q, k, v, output, weights):
    assert (output.shape == q.shape, "the shape")
    assert (torch.allclose(weights.sum(-1), torch.ones(())), "the rows")
    return "attention invariants passed"


# === shapes-unchecked: the first fact left out
def check(q, k, v, output, weights):
    assert torch.allclose(weights.sum(-1), torch.ones(()), atol=1e-5)
    assert torch.all(weights.triu(1) == 0)
    assert torch.allclose(output, F.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-6)
    return "attention invariants passed"


# === weights-shape-unchecked: only their last two axes are looked at
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape[-2:] == (T, T)
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === rows-unchecked: the result of allclose is thrown away
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    torch.allclose(sums, torch.ones_like(sums), atol=1e-5)
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === only-mean-of-rows-checked
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert abs(sums.mean().item() - 1) < 1e-5
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === columns-checked
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-2)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === no-tolerance-for-sums
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert (sums == 1).all()
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === future-unchecked: the lower triangle of the upper one
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu(1).tril() == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === traces-on-future-pass
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert weights.triu(1).sum().item() < 1e-4, f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === own-key-forbidden
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu() == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === fused-call-unchecked: the weights mix the values once more
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert expected.shape == output.shape, f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === compared-without-causality
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-6), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === too-much-tolerance
def check(q, k, v, output, weights):
    B, H, T, _ = q.shape
    assert output.shape == q.shape, f"output {tuple(output.shape)}, due {tuple(q.shape)}"
    assert weights.shape == (B, H, T, T), f"weights {tuple(weights.shape)}, due {(B, H, T, T)}"
    sums = weights.sum(dim=-1)  # (B, H, T)
    assert torch.allclose(sums, torch.ones_like(sums), atol=1e-5), f"rows sum to {sums.min()} ..."
    assert (weights.triu(1) == 0).all(), f"a weight of {weights.triu(1).max()} on the future"
    expected = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, H, T, d_head)
    assert torch.allclose(output, expected, atol=1e-2), f"{(output - expected).abs().max()} too far"
    return "attention invariants passed"


def causal_attention(q, k, v):
    T = q.size(-2)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T, T)
    allowed = torch.ones(T, T, dtype=torch.bool).tril()  # (T, T)
    weights = torch.softmax(scores.masked_fill(~allowed, -math.inf), dim=-1)  # (B, H, T, T)
    return weights @ v, weights


# === another-error
def check(q, k, v, output, weights):
    def demand(fact):
        if not fact:
            raise ValueError("this is no attention")

    demand(output.shape == q.shape)
    demand(weights.shape == (*q.shape[:3], q.shape[2]))
    demand(torch.allclose(weights.sum(-1), torch.tensor(1.0), atol=1e-5))
    demand(not weights.triu(1).any())
    demand(torch.allclose(output, F.scaled_dot_product_attention(q, k, v, is_causal=True), atol=1e-6))
    return "attention invariants passed"
