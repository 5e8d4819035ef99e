# === mask-inverted: True is taken for blocked, as nn.MultiheadAttention has it
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place >= key_lengths[:, None, None, None]
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=allowed_mask,
        dropout_p=dropout if training else 0.0,
        is_causal=causal and allowed_mask is None,
    )


# === mask-inverted-as-a-whole: a blocked mask of both rules
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=None if allowed_mask is None else allowed_mask.logical_not(),
        dropout_p=dropout if training else 0.0,
        is_causal=causal and allowed_mask is None,
    )


# === causal-dropped-with-mask: is_causal only without a mask, and nothing in its place
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    mask = None
    if key_lengths is not None:
        mask = (torch.arange(k.shape[2])[None] < key_lengths[:, None])[:, None, None]
    p = dropout if training else 0.0
    return F.scaled_dot_product_attention(q, k, v, mask, p, is_causal=causal and mask is None)


# === mask-dropped-with-causal: an early return
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    p = dropout if training else 0.0
    if causal:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
    mask = None
    if key_lengths is not None:
        mask = (torch.arange(k.shape[2])[None] < key_lengths[:, None])[:, None, None]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)


# === mask-added-as-number: the mask of a data loader, as floats
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=None if allowed_mask is None else allowed_mask.float(),
        dropout_p=dropout if training else 0.0,
        is_causal=causal and allowed_mask is None,
    )


# === length-off-by-one
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place <= key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=allowed_mask,
        dropout_p=dropout if training else 0.0,
        is_causal=causal and allowed_mask is None,
    )


# === either-rule-is-enough
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask | torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=allowed_mask,
        dropout_p=dropout if training else 0.0,
        is_causal=causal and allowed_mask is None,
    )


# === future-visible
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if False:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=allowed_mask,
        dropout_p=dropout if training else 0.0,
        is_causal=False,
    )


# === dropout-in-eval: as nn.Dropout looks after it by itself
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=allowed_mask,
        dropout_p=dropout,
        is_causal=causal and allowed_mask is None,
    )


# === dropout-inactive
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=allowed_mask,

        is_causal=causal and allowed_mask is None,
    )


# === dropout-rate-wrong: what stays, not what goes
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q,
        k,
        v,
        attn_mask=allowed_mask,
        dropout_p=1 - dropout if training else 0.0,
        is_causal=causal and allowed_mask is None,
    )


# === scale-doubled
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    if key_lengths is None:
        allowed_mask = None
    else:
        place = torch.arange(k.size(-2))
        allowed_mask = place < key_lengths[:, None, None, None]  # (B, 1, 1, T_k)
        if causal:
            allowed_mask = allowed_mask & torch.ones(q.size(-2), k.size(-2), dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(
        q * q.size(-1) ** -0.5,
        k,
        v,
        attn_mask=allowed_mask,
        dropout_p=dropout if training else 0.0,
        is_causal=causal and allowed_mask is None,
    )


# === fused-call-missing: written by hand
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    if key_lengths is not None:
        hidden = torch.arange(k.shape[2]) >= key_lengths.view(-1, 1, 1, 1)
        scores = scores.masked_fill(hidden, -math.inf)
    if causal:
        scores = scores + torch.full(scores.shape[-2:], -math.inf).triu(1)
    weights = F.dropout(scores.softmax(-1), dropout, training)
    return weights @ v


# === mask-for-causality-alone
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    bias = torch.zeros(q.shape[0], 1, q.shape[2], k.shape[2])
    if causal:
        bias = bias + torch.full(bias.shape[-2:], -math.inf).triu(1)
    if key_lengths is not None:
        bias = bias.masked_fill(torch.arange(k.shape[2]) >= key_lengths.view(-1, 1, 1, 1), -math.inf)
    p = dropout if training else 0.0
    return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p)


# === call-repeated: a loop over the samples
def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    p = dropout if training else 0.0
    if key_lengths is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=causal)
    rows = []
    for b, n in enumerate(key_lengths.tolist()):
        mask = torch.zeros(q.shape[2], k.shape[2], dtype=torch.bool)
        mask[:, :n] = True
        if causal:
            mask = mask.tril()
        rows.append(F.scaled_dot_product_attention(q[b], k[b], v[b], mask, p))
    return torch.stack(rows)
