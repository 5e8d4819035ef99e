"""How the modules with rescaled rotary positions are proved: complex numbers, by rates worked out anew."""

import math

import torch
from inputs_of_modules import H_KV, KEYS, TRIANGLE, WIDTH, D, H, T
from recipe_of_modules import dot, look, merge, picture, pixels, qkvo, split, thirds

PLACES = torch.arange(T).double()
ROWS, COLUMNS = PLACES // 3, PLACES % 3


def powers(base, width):
    return torch.tensor([base ** (-2 * pair / width) for pair in range(width // 2)], dtype=torch.float64)


def between(kept, stretched, share):
    """Rates of which each keeps a share of its own and takes the rest of the stretched ones."""
    share = torch.tensor(share, dtype=torch.float64)
    return share * kept + (1 - share) * stretched


def turned(x, angles, pairs, gain=1.0):
    """[B, H, T, d] as complex numbers times exp(i angles), angles [T, pairs]; the rest of a head stays."""
    width = 2 * angles.shape[-1]
    part, rest = x[..., :width], x[..., width:]
    a, b = part.chunk(2, -1) if pairs == "halves" else (part[..., 0::2], part[..., 1::2])
    c = torch.complex(a, b) * torch.polar(torch.full_like(angles, gain), angles)
    return torch.cat((c.real, c.imag, rest), -1)  # a common order of features does not change a product


def by_angles(x, layers, angles, pairs="halves", allowed=None, kv_heads=H, gain=1.0):
    q, k, v, out = layers
    queries, keys = (turned(split(dot(f, x), h), angles, pairs, gain) for f, h in ((q, H), (k, kv_heads)))
    return dot(out, merge(look(queries, keys, split(dot(v, x), kv_heads), allowed)[0]))


def m62(m, p):
    return m(p.x), by_angles(
        p.x, [*thirds(m.qkv), m.proj], torch.outer(PLACES / 3, powers(10000.0, D)), allowed=TRIANGLE
    )


def m63(m, p):
    # 32 turns and one in 64 tokens would be pairs -0.5 and 1.01: kept up to pair 0, stretched from pair 2 on.
    kept = powers(10000.0, D)
    rates = between(kept, kept / 8, [1.0, 0.5, 0.0, 0.0])
    return m(p.x, KEYS[:, 0, 0]), by_angles(
        p.x,
        qkvo(m, "wq wk wv wo"),
        torch.outer(PLACES, rates),
        allowed=TRIANGLE & KEYS,
        kv_heads=H_KV,
        gain=1 + math.log(8) / 10,
    )


def m64(m, p):
    # Wavelengths of 6.3 and 167 tokens and more, where 32 were trained: a quarter of these is 8.
    kept = powers(500000.0, D)
    rates = between(kept, kept / 8, [1.0, 0.0, 0.0, 0.0])
    return m(p.x), by_angles(
        p.x, qkvo(m, "wq wk wv wo"), torch.outer(PLACES, rates), "neighbours", TRIANGLE, H_KV
    )


def m65(m, p):
    rates = torch.tensor([1.0, 1 / (100 * 5)], dtype=torch.float64)  # of 4 features: 10000 * 5 ** 2, its root
    return m(p.x), by_angles(p.x, qkvo(m, "q_proj k_proj v_proj o_proj"), torch.outer(PLACES, rates))


def m66(m, p):
    rates = powers(100.0, D // 2)
    angles = torch.cat((torch.outer(ROWS, rates), torch.outer(COLUMNS, rates)), -1)
    out = by_angles(pixels(p.image), qkvo(m, "to_q to_k to_v to_out"), angles, "neighbours")
    return m(p.image), picture(out)


def m67(m, p):
    rates = powers(100.0, D // 2)
    angles = torch.cat((torch.outer(ROWS, rates), torch.outer(COLUMNS, rates)), -1)
    return m(p.x), by_angles(p.x, [*thirds(m.qkv), m.proj], angles)


CASES = {
    "m62": (lambda c: c(WIDTH, H), m62),
    "m63": (lambda c: c(WIDTH, H, H_KV), m63),
    "m64": (lambda c: c(WIDTH, H, H_KV), m64),
    "m65": (lambda c: c(WIDTH, H), m65),
    "m66": (lambda c: c(WIDTH, H), m66),
    "m67": (lambda c: c(WIDTH, H, 3), m67),
}
