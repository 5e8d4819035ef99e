# === another-bug causal-top-left: the name is wrong
BUG = "cache-mask-misaligned"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=1)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === unknown-name causal-top-left: the name does not exist
BUG = "cache-forgotten"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=1)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === causal-top-left: named and not mended
BUG = "SL104"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=1)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === next-token-visible: moved by one too many
BUG = "causal-top-left"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=2 + T_k - T_q)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === self-hidden: moved by one too few
BUG = "causal-top-left"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=T_k - T_q)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === future-visible: nothing is hidden any more
BUG = "causal-top-left"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=T_k)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === bug-not-named: mended, without the name
BUG = ""


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=1 + T_k - T_q)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === another-bug: mended, with another name
BUG = "future-visible"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT).div(math.sqrt(q.shape[-1]))  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=1 + T_k - T_q)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)


# === scale-missing: mended, and something lost
BUG = "causal-top-left"


def causal_attention(q, k, v):
    T_q, T_k = q.shape[-2], k.shape[-2]
    scores = q.matmul(k.mT)  # (B, H, T_q, T_k)
    hidden = torch.ones(T_q, T_k, dtype=torch.bool).triu(diagonal=1 + T_k - T_q)  # (T_q, T_k)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).matmul(v)  # (B, H, T_q, d_v)
