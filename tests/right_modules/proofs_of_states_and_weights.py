"""How the modules are proved that change between calls, or that return scores or weights as well."""

import math

import torch
from inputs_of_modules import KEYS, KEYS_S, REAL, REAL_S, TRIANGLE, WIDTH, D, H
from proofs_by_names import fused_plain
from recipe_of_modules import dot, qkvo, recipe, rows, split, thirds


def m71(m, p):
    gain = 1.0 if m.folded else m.gain.double()
    return m(p.x, REAL), recipe(gain * p.x, gain * p.x, [*thirds(m.in_proj), m.out_proj], KEYS)[0]


def m72(m, p):
    m.clear_cache()
    return m(p.x), recipe(p.x, p.x, qkvo(m, "q_proj k_proj v_proj o_proj"), TRIANGLE)[0]


def m73(m, p):
    k, v = rows(m.to_kv, WIDTH, WIDTH)
    scores = split(dot(m.to_q, p.x)) @ split(dot(k, p.y)).mT / math.sqrt(D)
    finite = lambda logits: logits.masked_fill(~KEYS_S, 0.0)  # noqa: E731  infinities have no difference
    output, logits = m(p.x, p.y, REAL_S)
    assert torch.equal(logits == -math.inf, ~KEYS_S.expand(logits.shape))
    wanted = recipe(p.x, p.y, [m.to_q, k, v, m.to_out], KEYS_S)[0]
    return (output, finite(logits)), (wanted, finite(scores))


def m74(m, p):
    allowed = TRIANGLE & KEYS
    output, weights = recipe(p.x, p.x, qkvo(m, "w_qs w_ks w_vs fc"), allowed)
    return m(p.x, p.x, p.x, ~allowed[:, 0]), (output, weights.transpose(0, 1))


def m75(m, p):
    output, weights = recipe(p.x, p.x, qkvo(m, "q_proj k_proj v_proj out_proj"), KEYS)
    alone, none = m(p.x, ~REAL)
    assert none is None
    return (alone, *m(p.x, ~REAL, need_weights=True)), (output, output, weights.mean(1))


def m76(m, p):
    output, weights = recipe(p.x, p.x, [*thirds(m.qkv), m.proj], TRIANGLE)
    return m(p.x, TRIANGLE), (output, weights.permute(0, 2, 3, 1))


def m77(m, p):
    q, k, v, o = qkvo(m, "q_proj k_proj v_proj o_proj")
    return m(p.x), recipe(p.x, p.x, [q, k, v, o], TRIANGLE, scale=1.0 if m.folded else None)[0]


#: file -> how it is built, and from module and problem: what it answers, and what must come out
CASES = {
    "m70": (lambda c: c(H, D), fused_plain("qkv proj", allowed=TRIANGLE)),
    "m71": (lambda c: c(WIDTH, H), m71),
    "m72": (lambda c: c(WIDTH, H), m72),
    "m73": (lambda c: c(WIDTH, H), m73),
    "m74": (lambda c: c(H, WIDTH, 0.25), m74),
    "m75": (lambda c: c(WIDTH, H), m75),
    "m76": (lambda c: c(WIDTH, H), m76),
    "m77": (lambda c: c(WIDTH, H), m77),
}
