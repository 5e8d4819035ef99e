"""How the modules m01 to m31 are proved: what each is asked, and the same worked out with its own weights."""

from types import SimpleNamespace

import torch
from inputs_of_modules import (
    BACK,
    H_KV,
    KEYS,
    KEYS_S,
    MEMORY,
    REAL,
    REAL_S,
    SIZES,
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
    rms,
    rotary,
    rows,
    split,
    thirds,
    turned,
)


def m03(m, p):
    q, k, v, out = m.linears
    want, weights = recipe(p.x, p.y, [q, k, v, out], KEYS_S, z=p.z)
    return (m(p.x, p.y, p.z, REAL_S[:, None]), m.attn), (want, weights)


def m04(m, p):
    out, weights = recipe(p.x, p.y, [m.w_qs, m.w_ks, m.w_vs, m.fc], KEYS_S, z=p.z)
    return m(p.x.clone(), p.y, p.z, REAL_S[:, None]), (norm(m.layer_norm, out + p.x.double()), weights)


def m08(m, p):
    layers = qkvo(m, "q k v o")
    near = m.relative_attention_bias.weight.double()[(-BACK).clamp(-4, 4) + 4].permute(2, 0, 1)
    one = m(p.x, hiding(KEYS, p.dtype)), recipe(p.x, p.x, layers, KEYS, scale=1.0, bias=near)[0]
    two = m(p.x, None, p.bias), recipe(p.x, p.x, layers, scale=1.0, bias=p.bias.double())[0]
    return (one[0], two[0]), (one[1], two[1])


def m09(m, p):
    angles = torch.outer(torch.arange(T).double(), 10000.0 ** (-torch.arange(0, D, 2).double() / D)).repeat(
        1, 2
    )
    given = angles.cos().to(p.dtype).expand(B, T, D), angles.sin().to(p.dtype).expand(B, T, D)
    return m(p.x, given, hiding(TRIANGLE & KEYS, p.dtype)), rotary(
        p.x, qkvo(m, "q_proj k_proj v_proj o_proj"), "halves", TRIANGLE & KEYS
    )


def m11(m, p):
    q, k, v = (split(dot(f, p.x)) for f in qkvo(m, "q_proj k_proj v_proj"))
    q, k = (torch.cat((turned(t[..., :4], "neighbours"), t[..., 4:]), -1) for t in (q, k))
    return m(p.x), dot(m.out_proj, merge(look(q, k, v, TRIANGLE)[0]))


def m14(m, p):
    q, k, v = rows(m.qkv, H * D, H_KV * D, H_KV * D)
    return m(p.x), recipe(
        p.x, p.x, [q, k, v, m.out], TRIANGLE, kv_heads=H_KV, sink=m.sinks.double()[:, None, None]
    )[0]


def m15(m, p):
    q, k, v = split(dot(m.q_proj, p.x)), split(dot(m.k_proj, p.x), H_KV), split(dot(m.v_proj, p.x), H_KV)
    return m(p.x), dot(m.o_proj, merge(look(rms(m.q_norm, q), rms(m.k_norm, k), v, TRIANGLE)[0]))


def m16(m, p):
    q, k, v = rms(m.q_norm, dot(m.w_q, p.x)), rms(m.k_norm, dot(m.w_k, p.x)), dot(m.w_v, p.x)
    return m(p.x), dot(m.w_out, merge(look(split(q), split(k), split(v), TRIANGLE)[0]))


SLOPES = 2.0 ** (-8.0 * torch.arange(1, H + 1).double() / H)
FALLING = -SLOPES[:, None, None] * BACK  # [H, T, T], the further the lower


def m17(m, p):
    by_head = m.query_key_value.weight.unflatten(0, (H, 3, D)), m.query_key_value.bias.unflatten(0, (H, 3, D))
    parts = [
        SimpleNamespace(weight=by_head[0][:, i].flatten(0, 1), bias=by_head[1][:, i].flatten())
        for i in range(3)
    ]
    alibi = (SLOPES[:, None] * torch.arange(T)).repeat(B, 1)[:, None].to(p.dtype)
    allowed = TRIANGLE & KEYS
    return m(p.x, alibi, ~allowed), recipe(p.x, p.x, [*parts, m.dense], allowed, bias=FALLING)[0]


def m19(m, p):
    layers = qkvo(m, "query key value out")
    own = m(p.x, mask=hiding(torch.ones(20, 20).bool().tril(), p.dtype))[0]
    return (m(p.x, p.y)[0], own), (recipe(p.x, p.y, layers)[0], recipe(p.x, p.x, layers, TRIANGLE)[0])


def m20(m, p):
    got, weights = m(p.x.transpose(0, 1), p.y.transpose(0, 1), p.z.transpose(0, 1), ~REAL_S)
    want, each = recipe(p.x, p.y, qkvo(m, "q_proj k_proj v_proj out_proj"), KEYS_S, z=p.z)
    return (got, weights), (want.transpose(0, 1), each.mean(1))


def m21(m, p):
    heads = [recipe(p.x, p.x, [h.query, h.key, h.value, None], TRIANGLE, heads=1)[0] for h in m.heads]
    return m(p.x), dot(m.proj, torch.cat(heads, -1))


def m22(m, p):
    q, k, v = (
        torch.einsum("btm,hmd->bhtd", p.x.double(), w.double()) + b.double()[:, None]
        for w, b in ((m.W_Q, m.b_Q), (m.W_K, m.b_K), (m.W_V, m.b_V))
    )
    return m(p.x), torch.einsum("bhtd,hdm->btm", look(q, k, v, TRIANGLE)[0], m.W_O.double()) + m.b_O.double()


def m23(m, p):
    turned_round = lambda layer: SimpleNamespace(weight=layer.weight.T, bias=layer.bias)  # noqa: E731
    return m(p.x), recipe(p.x, p.x, [*thirds(turned_round(m.c_attn)), turned_round(m.c_proj)], TRIANGLE)[0]


def m24(m, p):
    got = m(p.x.mT, p.y.mT, KEYS_S.expand(B, 1, T, S).int())
    return got, recipe(p.x, p.y, qkvo(m, "conv_q conv_k conv_v conv_o"), KEYS_S)[0].mT


def m25(m, p):
    tokens = pixels(p.image)
    out = recipe(tokens, tokens, [m.query_conv, m.key_conv, m.value_conv, None], heads=1, scale=1.0)[0]
    return m(p.image), picture(m.gamma.double() * out) + p.image.double()


def m26(m, p):
    groups = p.image.double().view(B, 8, -1)
    normed = (groups - groups.mean(-1, keepdim=True)) / (
        groups.var(-1, keepdim=True, correction=0) + 1e-6
    ).sqrt()
    tokens = pixels(normed.view(p.image.shape)) * m.norm.weight.double() + m.norm.bias.double()
    return m(p.image), picture(
        recipe(tokens, tokens, qkvo(m, "q k v proj_out"), heads=1)[0]
    ) + p.image.double()


def m27(m, p):
    k, v = rows(m.to_kv, H * D, H * D)
    return m(p.x, p.memory, REAL_S), recipe(p.x, p.memory, [m.to_q, k, v, m.to_out], KEYS_S)[0]


def m29(m, p):
    return m(p.x, p.memory, REAL_S), recipe(p.x, p.memory, [m.to_q, m.to_k, m.to_v, m.to_out[0]], KEYS_S)[0]


def m30(m, p):
    latents = norm(m.norm_latents, m.latents).expand(B, -1, -1)
    data = norm(m.norm_data, p.x)
    return m(p.x, ~REAL), recipe(latents, data, qkvo(m, "to_q to_k to_v to_out"), KEYS)[0]


def m31(m, p):
    x, latents = norm(m.norm_media, p.x), norm(m.norm_latents, p.y)
    return m(p.x, p.y), recipe(
        latents, torch.cat((x, latents), 1), [m.to_q, *rows(m.to_kv, H * D, H * D), m.to_out]
    )[0]


#: file -> how it is built, and from module and problem: what it answers, and what must come out
CASES = {
    "m01": (lambda c: c(SIZES), fused_plain("c_attn c_proj", allowed=TRIANGLE)),
    "m02": (lambda c: c(SIZES), plain("query key value proj", allowed=TRIANGLE)),
    "m03": (lambda c: c(H, WIDTH), m03),
    "m04": (lambda c: c(H, WIDTH, D, 5), m04),
    "m05": (lambda c: c(WIDTH, H, 5, 0.25), fused_plain("to_qkv to_out")),
    "m06": (lambda c: c(WIDTH, H, True), fused_plain("qkv proj")),
    "m07": (
        lambda c: c(SIZES),
        plain("query key value", lambda m, p: m(p.x, hiding(KEYS, p.dtype, -10000.0)), KEYS),
    ),
    "m08": (lambda c: c(WIDTH, H, D, 4), m08),
    "m09": (lambda c: c(WIDTH, H, H_KV, 0.25), m09),
    "m10": (
        lambda c: c(WIDTH, H, H_KV, 20),
        lambda m, p: (m(p.x), rotary(p.x, qkvo(m, "wq wk wv wo"), "halves", TRIANGLE)[0]),
    ),
    "m11": (lambda c: c(SIZES), m11),
    "m12": (
        lambda c: c(WIDTH, H, H_KV, 3),
        plain("q_proj k_proj v_proj o_proj", allowed=(BACK >= 0) & (BACK < 3), kv_heads=H_KV),
    ),
    "m13": (
        lambda c: c(SIZES),
        plain(
            "q_proj k_proj v_proj o_proj",
            lambda m, p: m(p.x, hiding(TRIANGLE, p.dtype)),
            TRIANGLE,
            kv_heads=H_KV,
            scale=12**-0.5,
            cap=1.5,
        ),
    ),
    "m14": (lambda c: c(WIDTH, H, H_KV), m14),
    "m15": (lambda c: c(WIDTH, H, H_KV, D), m15),
    "m16": (lambda c: c(WIDTH, H), m16),
    "m17": (lambda c: c(WIDTH, H), m17),
    "m18": (lambda c: c(WIDTH, H), fused_plain("Wqkv out_proj", allowed=TRIANGLE, bias=FALLING)),
    "m19": (lambda c: c(WIDTH, H), m19),
    "m20": (lambda c: c(WIDTH, H, 0.25), m20),
    "m21": (lambda c: c(H, D, WIDTH, 20), m21),
    "m22": (lambda c: c(SIZES), m22),
    "m23": (lambda c: c(WIDTH, 20, H), m23),
    "m24": (lambda c: c(WIDTH, MEMORY, H, 0.25), m24),
    "m25": (lambda c: c(WIDTH), m25),
    "m26": (lambda c: c(WIDTH), m26),
    "m27": (lambda c: c(WIDTH, MEMORY, H, D), m27),
    "m28": (
        lambda c: c(WIDTH, MEMORY, H),
        plain("query key value output", lambda m, p: m(p.x, p.memory, REAL_S), KEYS_S, "memory"),
    ),
    "m29": (lambda c: c(WIDTH, MEMORY, H, D), m29),
    "m30": (lambda c: c(5, WIDTH, H), m30),
    "m31": (lambda c: c(dim=WIDTH, dim_head=D, heads=H), m31),
}
