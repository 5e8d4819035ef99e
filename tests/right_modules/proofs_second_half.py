"""How the modules from m32 on are proved: what each is asked, and the same worked out with its weights."""

from types import SimpleNamespace

import torch
from inputs_of_modules import (
    BACK,
    EARLIER,
    KEYS,
    KEYS_S,
    MEMORY,
    REAL,
    REAL_S,
    SIZES,
    SPARSE,
    TRIANGLE,
    WIDTH,
    B,
    D,
    H,
    S,
    T,
)
from proofs_by_names import fused_plain, plain
from recipe_of_modules import (
    dot,
    hiding,
    look,
    merge,
    norm,
    picture,
    pixels,
    qkvo,
    recipe,
    rotary,
    rows,
    split,
    thirds,
)
from torch.nn import functional


def m34(m, p):
    got = m(p.x, REAL)
    return (got.hidden_states, got.attentions), recipe(p.x, p.x, [*thirds(m.in_proj), m.out_proj], KEYS)


def m35(m, p):
    got = m(p.x, ~REAL)
    return (got["output"], got["weights"]), recipe(p.x, p.x, qkvo(m, "q k v o"), KEYS)


def m40(m, p):
    q, v = (
        SimpleNamespace(weight=f.base.weight + f.factor * f.lora_b.weight @ f.lora_a.weight, bias=None)
        for f in (m.q_proj, m.v_proj)
    )
    return m(p.x), recipe(p.x, p.x, [q, m.k_proj, v, m.output_proj], TRIANGLE)[0]


def m41(m, p):
    layers = []
    for f in qkvo(m, "query key value proj"):
        length, direction = f.parametrizations.weight.original0, f.parametrizations.weight.original1
        layers.append(
            SimpleNamespace(
                weight=length * direction / direction.pow(2).sum(1, keepdim=True).sqrt(), bias=f.bias
            )
        )
    return m(p.x, TRIANGLE & KEYS), recipe(p.x, p.x, layers, TRIANGLE & KEYS)[0]


def m42(m, p):
    layers = []
    for f in qkvo(m, "to_q to_k to_v"):
        u, v = f.parametrizations.weight[0]._u, f.parametrizations.weight[0]._v
        raw = f.parametrizations.weight.original
        layers.append(SimpleNamespace(weight=raw / (u @ raw @ v), bias=None))
    return m(p.x, p.y), recipe(p.x, p.y, [*layers, m.to_out])[0]


def m43(m, p):
    q, k, v = (
        split(dot(f, t))
        for f, t in ((m.query_projection, p.x), (m.key_projection, p.y), (m.value_projection, p.z))
    )
    weights = (functional.elu(q) + 1) @ (functional.elu(k) + 1).mT
    return m(p.x, p.y, p.z), dot(
        m.out_projection, merge(weights / (weights.sum(-1, keepdim=True) + 1e-6) @ v)
    )


def m44(m, p):
    inputs = norm(m.norm_input, p.y)
    scores = dot(m.to_q, norm(m.norm_slots, p.x)) @ dot(m.to_k, inputs).mT / WIDTH**0.5
    shares = scores.softmax(1) + 1e-8
    return m(p.x, p.y), shares / shares.sum(2, keepdim=True) @ dot(m.to_v, inputs)


def m48(m, p):
    q, k, v = (p.x[:1].double() @ w.double() for w in (m.W_query, m.W_key, m.W_value))
    return m(p.x[0]), look(q[:, None], k[:, None], v[:, None], TRIANGLE)[0][0, 0]


def m49(m, p):
    layers = [*rows(m.Wqkv, WIDTH, D, D), m.out_proj]
    return m(p.x, REAL), recipe(p.x, p.x, layers, TRIANGLE & KEYS, kv_heads=1)[0]


def m51(m, p):
    out, weights = recipe(p.x, p.y, qkvo(m, "q_layer k_layer v_layer output_layer"), KEYS_S, z=p.z)
    return m(p.y, p.z, p.x, REAL_S[:, None].byte()), (out, weights.mean(1))


def m53(m, p):
    at = [(i, j) for i in range(3) for j in range(3)]
    place = torch.tensor([[(a - c + 2) * 5 + (b - d + 2) for c, d in at] for a, b in at])
    bias = m.relative_position_bias_table.double()[place].permute(2, 0, 1)
    shifted = torch.stack(
        (TRIANGLE, TRIANGLE.T, torch.eye(T).bool())
    )  # one window each, three windows an image
    layers = [*thirds(m.qkv), m.proj]
    return (m(p.x), m(p.x, hiding(shifted, p.dtype, -100.0))), (
        recipe(p.x, p.x, layers, bias=bias)[0],
        recipe(p.x, p.x, layers, shifted[:, None], bias=bias)[0],
    )


def m54(m, p):
    inner = SimpleNamespace(weight=m.attn.in_proj_weight, bias=m.attn.in_proj_bias)
    return m(p.x, REAL), recipe(p.x, p.x, [*thirds(inner), m.attn.out_proj], KEYS)[0]


def m55(m, p):
    inner = SimpleNamespace(weight=m.in_proj_weight, bias=m.in_proj_bias)
    allowed = KEYS_S & torch.ones(T, S).bool().triu(-3).logical_or(torch.arange(S) < 2)
    got = m(p.x, p.y, p.z, ~REAL_S, ~allowed[1, 0])
    return got, recipe(p.x, p.y, [*thirds(inner), m.out_proj], KEYS_S & allowed[1, 0], z=p.z)


def m56(m, p):
    q = split(m.query.double().expand(B, 1, WIDTH))
    mixed = look(q, split(dot(m.k_proj, p.x)), split(dot(m.v_proj, p.x)), KEYS)[0]
    return m(p.x, REAL), dot(m.out_proj, merge(mixed))[:, 0]


def m57(m, p):
    angles = torch.outer(torch.arange(T).double(), 10000.0 ** (-torch.arange(0, D, 2).double() / D))
    turns = torch.polar(torch.ones_like(angles), angles).to(
        torch.complex64 if p.dtype == torch.float32 else torch.complex128
    )
    return m(p.x, turns, hiding(TRIANGLE, p.dtype)), rotary(
        p.x, qkvo(m, "wq wk wv wo"), "neighbours", TRIANGLE
    )[0]


def m58(m, p):
    return m(p.image, p.memory, REAL_S), picture(
        recipe(pixels(p.image), p.memory, qkvo(m, "to_q to_k to_v to_out"), KEYS_S)[0]
    )


def m59(m, p):
    q, k, v = (split(dot(f, p.x)) for f in thirds(m.qkv))
    q, k = (t / t.pow(2).sum(-1, keepdim=True).sqrt() for t in (q, k))
    return m(p.x), dot(m.proj, merge(look(q * m.logit_scale.double().exp(), k, v, scale=1.0)[0]))


def m60(m, p):
    got = m(p.x, p.y, p.z, ~REAL_S)
    decoder = m(p.x, p.x, p.x, ~REAL, causal=True)
    layers = qkvo(m, "fc_q fc_k fc_v fc_o")
    return (*got, *decoder), (
        *recipe(p.x, p.y, layers, KEYS_S, z=p.z),
        *recipe(p.x, p.x, layers, KEYS & TRIANGLE),
    )


def m52(m, p):
    return m(p.x), recipe(p.x, p.x, [m.q, *rows(m.kv, WIDTH, WIDTH), m.o])[0]


#: file -> how it is built, and from module and problem: what it answers, and what must come out
CASES = {
    "m32": (
        lambda c: c(WIDTH, H, 0.25),
        plain("W_q W_k W_v W_o", lambda m, p: m(p.x, p.y, p.y, REAL_S.sum(1)), KEYS_S, "y"),
    ),
    "m33": (
        lambda c: c(WIDTH, H, 0.25),
        lambda m, p: (
            m(p.x, hiding(TRIANGLE & KEYS, p.dtype), output_attentions=True),
            recipe(p.x, p.x, qkvo(m, "q_proj k_proj v_proj out_proj"), TRIANGLE & KEYS),
        ),
    ),
    "m34": (lambda c: c(SIZES), m34),
    "m35": (lambda c: c(WIDTH, H), m35),
    "m36": (lambda c: c(WIDTH, H), fused_plain("qkv_proj out_proj", allowed=TRIANGLE)),
    "m37": (
        lambda c: c(WIDTH, WIDTH, 20, 0.25, H),
        plain("W_query W_key W_value out_proj", allowed=TRIANGLE),
    ),
    "m38": (
        lambda c: c(WIDTH, H, 0.25),
        plain("W_q W_k W_v W_o", lambda m, p: m(p.x, p.memory, p.memory, REAL_S[:, None]), KEYS_S, "memory"),
    ),
    "m39": (lambda c: c(WIDTH, H), plain("q_proj k_proj v_proj o_proj")),
    "m40": (lambda c: c(WIDTH, H, 20), m40),
    "m41": (lambda c: c(WIDTH, H), m41),
    "m42": (lambda c: c(WIDTH, H), m42),
    "m43": (lambda c: c(WIDTH, H), m43),
    "m44": (lambda c: c(WIDTH), m44),
    "m45": (lambda c: c(WIDTH, H), fused_plain("qkv proj", allowed=EARLIER)),
    "m46": (
        lambda c: c(WIDTH, H, 2),
        plain(
            "query key value dense", lambda m, p: m(p.x, ~SPARSE), (BACK.abs() <= 2) & SPARSE[:, None, None]
        ),
    ),
    "m47": (lambda c: c(WIDTH, 20), plain("W_query W_key W_value", heads=1)),
    "m48": (lambda c: c(WIDTH, 20, 20), m48),
    "m49": (lambda c: c(WIDTH, H), m49),
    "m50": (
        lambda c: c(features=WIDTH, num_heads=H),
        plain(
            "query key value out",
            lambda m, p: m(inputs=p.x, memory=p.y, memory_is_padding=~REAL_S),
            KEYS_S,
            "y",
        ),
    ),
    "m51": (lambda c: c(H, WIDTH), m51),
    "m52": (lambda c: c(SIZES), m52),
    "m53": (lambda c: c(WIDTH, 3, H), m53),
    "m54": (lambda c: c(WIDTH, H), m54),
    "m55": (lambda c: c(WIDTH, H, 0.25), m55),
    "m56": (lambda c: c(WIDTH, H), m56),
    "m57": (lambda c: c(SIZES), m57),
    "m58": (lambda c: c(WIDTH, MEMORY, H), m58),
    "m59": (lambda c: c(WIDTH, H), m59),
    "m60": (lambda c: c(WIDTH, H, 0.25), m60),
    "m61": (lambda c: c(WIDTH, H), plain("wq wk wv wo", allowed=TRIANGLE)),
}
