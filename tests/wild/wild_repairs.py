"""The one wrong line of every wild file, repaired, and a check that only the repaired file passes."""

import math

import torch
from wild_checks import (
    EMPTY,
    K,
    KEYS,
    Q,
    REAL,
    SOME,
    T,
    TRIANGLE,
    V,
    X,
    Y,
    Z,
    alibi,
    as_exact_as_the_plain_formula,
    attend,
    cached,
    causal,
    causal_in_half,
    channels_first,
    cross,
    empty_rows_uniform,
    equal_batch_and_heads,
    finite_gradients,
    grouped,
    heads_last,
    heads_last_args,
    hidden_nan,
    large_scores,
    large_scores_without_batch,
    linear,
    mask_in_half,
    one_head,
    padding_in_half,
    plain_heads_last,
    same,
    second_call,
    swapped,
    very_negative_scores,
    window,
    with_mask,
    zero_queries,
)

#: id: (the marked line, repaired; a check that only the repaired file passes)
REPAIRS = {
    "b001": ("attn = attn.softmax(dim=2)", plain_heads_last),
    "b003": ("weights = torch.softmax(scores, dim=-1)", cross),
    "b004": ("attn = dots.softmax(dim=-1)", cross),
    "b006": ("attention = torch.softmax(energy, dim=1)", channels_first),
    "b007": ("exps = torch.exp(scores - scores.amax(dim=-1, keepdim=True))", large_scores),
    "b008": ("e = torch.exp(s - (queries @ keys.T / q.shape[1] ** 0.5).amax(1, keepdim=True))", large_scores_without_batch),
    "b010": ("probs = torch.softmax(scores, dim=-1, dtype=torch.float32)", as_exact_as_the_plain_formula),
    "b011": ("attn = attn * attn_mask / (attn * attn_mask).sum(-1, keepdim=True)", with_mask(KEYS, KEYS)),
    "b012": (
        "weights = torch.softmax(scores.masked_fill(~source_mask[:, None], -torch.inf), dim=-1)",
        one_head(REAL, KEYS),
    ),
    "b013": ("att = torch.softmax(scores.masked_fill(~valid[:, None, :], -torch.inf), dim=2)", one_head(REAL, KEYS)),
    "b015": (
        "logits = logits.masked_fill(instance_mask[:, None, :] == 0, -torch.inf)",
        one_head(REAL.long(), KEYS, keyword="instance_mask"),
    ),
    "b017": ('scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))', zero_queries),
    "b018": ("logits = torch.where(mask, logits, torch.full_like(logits, -torch.inf))", with_mask(SOME, SOME)),
    "b019": ("score = score.masked_fill(mask == 0, -math.inf)", with_mask(SOME.long(), SOME)),
    "b020": ("scores = scores.masked_fill(future, -torch.inf)", very_negative_scores),
    "b021": ("scores = torch.where(keep == 0, -torch.inf, scores)", with_mask(KEYS.long(), KEYS)),
    "b023": ("scores = scores.masked_fill(mask, min_value)", with_mask(REAL[:, None].long(), KEYS)),
    "b024": ("score = score.masked_fill(~present, value=-math.inf)", with_mask(REAL, KEYS)),
    "b025": ("out = out.masked_fill(text_without_media[:, None, :, None], 0.0)", with_mask(EMPTY[:, 0], EMPTY)),
    "b026": ("attention_mask = attention_mask", with_mask((~SOME).float() * torch.finfo(Q.dtype).min, SOME)),
    "b027": ("return nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=~mask)", causal),
    "b028": (
        "return F.scaled_dot_product_attention(q, k, v, attn_mask=None if attn_mask is None else ~attn_mask)",
        with_mask(~REAL, KEYS),
    ),
    "b029": ("sim = sim.masked_fill(~mask, -torch.finfo(sim.dtype).max)", with_mask(REAL, KEYS)),
    "b031": ("scores = scores + mask.to(wide)", with_mask(torch.zeros(T, T).masked_fill(~TRIANGLE, -math.inf), TRIANGLE)),
    "b032": ("attn_weights = attn_weights.masked_fill(~attention_mask, -torch.inf)", with_mask(SOME, SOME)),
    "b033": (
        "scores = scores.masked_fill(pad, -torch.inf)",
        lambda f: with_mask(~REAL, KEYS)(f) and with_mask((~REAL).float() * -1e30, KEYS)(f),
    ),
    "b036": ("drop = mask == 0", one_head(SOME[:, 0].to(torch.uint8), SOME)),
    "b037": ("extended = (1.0 - mask.to(q.dtype)) * torch.finfo(q.dtype).min", with_mask(REAL, KEYS)),
    "b038": ("score = score.masked_fill(~src_mask[:, None, None, :], -10000.0)", with_mask(REAL, KEYS)),
    "b039": ("attn = attn + minus[:, None, :]", one_head(REAL.float(), KEYS)),
    "b045": (
        "sim = sim.masked_fill(~mask[:, None], -torch.finfo(sim.dtype).max)",
        lambda f: equal_batch_and_heads(f, SOME[:, 0], SOME),
    ),
    "b046": ('mask = rearrange(mask, "b j -> b 1 1 j")', lambda f: equal_batch_and_heads(f, REAL, KEYS)),
    "b060": (
        "return F.scaled_dot_product_attention(query, key, value) if window_size is None else "
        "dot_product_attention(query, key, value, is_causal=True, window_size=window_size)",
        window,
    ),
    "b062": ("mask = (mask - 1.0) * 1e4", second_call),
    "b063": (
        "rows, cols = torch.triu_indices(t, t, offset=1)",
        lambda f: causal(f, lambda *qkv: [x.flatten(0, 1) for x in qkv], lambda x: x.flatten(0, 1)),
    ),
    "b070": (
        "visible = torch.ones(q_len, k_len, dtype=torch.bool).tril(diagonal=k_len - q_len)",
        lambda f: cached(f, lambda *qkv: [x[0] for x in qkv], lambda x: x[0]),
    ),
    "b074": (
        "return F.scaled_dot_product_attention(q, k_cache, v_cache, "
        "attn_mask=q.new_ones(q.shape[2], k_cache.shape[2]).tril(k_cache.shape[2] - q.shape[2]).bool())",
        cached,
    ),
    "b075": ("causal_mask = torch.ones(q_len, kv_len, dtype=torch.bool).tril(kv_len - q_len)", cached),
    "b077": (
        's = s.masked_fill(col > row + seqlen_k - seqlen_q, float("-inf"))',
        lambda f: cached(f, heads_last_args, swapped, causal=True) and plain_heads_last(f),
    ),
    "b081": (
        "visible = i + 1 + key.shape[0] - query.shape[0]",
        lambda f: cached(f, lambda *qkv: [x[0, 0] for x in qkv], lambda x: x[0, 0]),
    ),
    "b086": ("weights = torch.softmax(scores, dim=-1).nan_to_num(0.0)", with_mask(EMPTY, EMPTY)),
    "b087": (
        "probs = torch.softmax(logits + bias, dim=-1).nan_to_num(0.0)",
        with_mask(EMPTY[0, 0], EMPTY[0], keyword="allowed_mask", lay=lambda qkv: heads_last(*qkv), back=swapped),
    ),
    "b089": ("weight = dot.softmax(dim=-1).nan_to_num(0.0)", one_head(EMPTY[:, 0], EMPTY)),
    "b094": (
        "attn = sim.masked_fill(~mask, torch.finfo(sim.dtype).min).softmax(dim=-1)",
        lambda f: finite_gradients(f, EMPTY[0, 0]),
    ),
    "b095": (
        "p = torch.where(torch.isinf(bias).all(-1, keepdim=True), 0.0, torch.softmax(energy.masked_fill("
        "torch.isinf(bias), -1e30), dim=-1))",
        lambda f: finite_gradients(f, torch.zeros(T, T).masked_fill(~EMPTY[0, 0], -math.inf)),
    ),
    "b096": ("return torch.matmul(weights, v.masked_fill(~mask[:, None, :, None], 0.0))", hidden_nan),
    "b099": ('attn_weights = attn_weights.masked_fill(key_padding_mask.unsqueeze(1), float("-inf"))', padding_in_half),
    "b101": ('w = w.masked_fill(b == 0, float("-inf"))', causal_in_half),
    "b102": ("big_neg = torch.full_like(att_weights, torch.finfo(att_weights.dtype).min)", mask_in_half),
    "b103": (
        "bias = torch.minimum(causal, padding[:, None, None, :])",
        lambda f: empty_rows_uniform(f, lambda q, k, v: (q, k, v), lambda x: x),
    ),
    "b104": (
        "bias = (planes[0] | planes[1]).to(query.dtype) * lowest",
        lambda f: empty_rows_uniform(f, heads_last_args, swapped),
    ),
    "b106": ("dots = (q @ k.transpose(-2, -1)) * dim_head**-0.5", cross),
    "b107": ("scores = scores / math.sqrt(q.shape[3])", lambda f: same(f(*heads_last(X, Y, Z)), swapped(attend(X, Y, Z)))),
    "b113": (
        "scores = torch.matmul(q, k.transpose(-1, -2)) * (q.shape[-1] ** -0.5 if sm_scale is None else sm_scale)",
        lambda f: cross(f) and same(f(X, Y, Z, 0.1), attend(X, Y, Z, scale=0.1)),
    ),
    "b115": (
        'attn = torch.einsum("bshk,bthk->bhst", qs, ks) / qs.shape[-1] ** 0.5',
        lambda f: causal(f, heads_last_args, swapped),
    ),
    "b116": ("scores = torch.matmul(Q, K.transpose(-2, -1)) / d_k**0.5", cross),
    "b119": (
        'scores = torch.einsum("b h n d, b h m d -> b h n m", latents_q, inputs_k) * scale',
        cross,
    ),
    "b120": ("att = F.softmax(energy * scaling, dim=-1)", cross),
    "b124": (
        "scores = scores * (query.shape[-1] ** -0.5 if scale is None else scale)",
        lambda f: cross(f) and same(f(X, Y, Z, scale=0.01), attend(X, Y, Z, scale=0.01)),
    ),
    "b136": (
        "return ((q * scale).transpose(1, 2) @ k.permute(0, 2, 3, 1)).softmax(-1).matmul(v.transpose(1, 2)).transpose(1, 2)",
        plain_heads_last,
    ),
    "b137": (
        "return F.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (query, key, value))).transpose(1, 2)",
        plain_heads_last,
    ),
    "b151": ("k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))", grouped),
    "b152": (
        "kv = h // (num_heads // num_kv_heads)",
        lambda f: grouped(f, lambda *qkv: [x[0] for x in qkv], lambda x: x[0])
        and same(f(Q[0], K[0], V[0]), attend(Q[0], K[0], V[0])),
    ),
    "b154": ("return x.repeat_interleave(n_rep, dim=2)", lambda f: grouped(f, heads_last_args, swapped)),
    "b155": (
        "key, value = (_repeat_kv(x.transpose(1, 2), n_rep).transpose(1, 2) for x in (key, value))",
        lambda f: grouped(f, allowed=TRIANGLE),
    ),
    "b169": ("bias = slopes[:, None, None] * (kv_idx - q_idx)", lambda f: alibi(f, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8], 4)),
    "b170": (
        "slopes = [2.0 ** (-2 * (h + 1)) for h in range(4)] + [2.0**-1, 2.0**-3] if H == 6 else None",
        lambda f: alibi(f, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8, 2.0**-1, 2.0**-3], 6),
    ),
    "b171": (
        "slope = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1))",
        lambda f: alibi(f, [2.0**-2, 2.0**-4, 2.0**-6, 2.0**-8], 4, heads_last_args, swapped),
    ),
    "b174": (
        "mask = ones.tril(0) & ones.triu(1 - sliding_window)",
        lambda f: same(f(Q, K, V), attend(Q, K, V, TRIANGLE & ~torch.ones(T, T).tril(-3).bool())),
    ),
    "b245": (
        "norm = (q * k.cumsum(1)).sum(-1, keepdim=True)",
        lambda f: linear(f, lambda x: torch.nn.functional.elu(x) + 1, is_causal=True),
    ),
    "b246": (
        'return torch.einsum("...de,...nd,...n->...ne", context, q, 1.0 / d_inv)',
        lambda f: linear(f, lambda x: torch.relu(x) + 1e-3, is_causal=False),
    ),
}
