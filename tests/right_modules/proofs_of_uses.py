"""How the modules are proved whose use is their own: masks on two sides, in objects, layouts, words."""

import math
from types import SimpleNamespace

import pytest
import torch
from inputs_of_modules import KEYS, KEYS_S, REAL, REAL_S, TRIANGLE, WIDTH, D, H
from recipe_of_modules import dot, look, merge, norm, qkvo, recipe, rotary, split, thirds
from torch.func import functional_call

ROWS, COLUMNS = 2, 4  # an image that shows which side is which; it takes the first tokens


def with_its_weights(m, other, *given):
    """Ask another module, built with other settings, with the weights of m."""
    return functional_call(other.train(m.training), dict(m.named_parameters()), given)


def by_head(x):
    """[B, T, H * d] as the modules without projections want it: [B, T, H, d]."""
    return x.unflatten(-1, (H, -1))


def looked(x, y, z, allowed=None):
    """The answer to by_head(x), by_head(y) and by_head(z): [B, T, H, d]."""
    return look(*(split(t.double()) for t in (x, y, z)), allowed)[0].transpose(1, 2)


def m80(m, p):
    x = norm(m.norm, p.x)
    layers = [*thirds(m.to_qkv), m.to_out]
    alone, padded = recipe(x, x, layers)[0], recipe(x, x, layers, KEYS)[0]
    return (m(p.x), m(p.x, REAL)[REAL]), (alone, padded[REAL])  # rows of padding are no concern


def m81(m, p):
    centred = SimpleNamespace(weight=1 + m.norm.gamma, bias=None, eps=1e-5)
    x = norm(centred, p.x)
    return m(p.x), rotary(x, qkvo(m, "to_q to_k to_v to_out"), "halves", None, kv_heads=H)[0]


def m82(m, p):
    layers = qkvo(m, "to_q to_k to_v to_out")
    with pytest.raises(ValueError, match="needs a context"):
        m(p.x)
    got = m(p.x, context=p.y), m(p.x, context=p.y, allowed_mask=REAL_S)
    return got, tuple(recipe(p.x, p.y, layers, allowed)[0] for allowed in (None, KEYS_S))


def m83(m, p):
    positive = lambda t: torch.where(t > 0, t + 1, t.clamp(max=0).exp())  # noqa: E731  elu(t) + 1
    q, k, v = (split(t.double()) for t in (p.x, p.y, p.z))
    products = positive(q) @ positive(k).mT
    got, wanted = [], []
    for q_mask in (None, REAL):
        for kv_mask in (None, REAL_S):
            got.append(m(*map(by_head, (p.x, p.y, p.z)), q_mask, kv_mask))
            shares = products if kv_mask is None else products * KEYS_S
            mixed = (shares / shares.sum(-1, keepdim=True) @ v).transpose(1, 2)
            wanted.append(mixed if q_mask is None else mixed * REAL[..., None, None])
    return tuple(got), tuple(wanted)


def m84(m, p):
    q, k, v = map(by_head, (p.x, p.y, p.z))
    every, padded = looked(p.x, p.y, p.z), looked(p.x, p.y, p.z, KEYS_S)
    got = m(q, k, v), m(q, k, v, REAL, None), m(q, k, v, None, REAL_S)
    full = m(q, k, v, torch.ones_like(REAL), REAL_S)
    # A row of padding is NaN, and so would be the gradients: its answer alone is compared.
    real = m(q, k, v, REAL, REAL_S)[REAL].detach()
    return (*got, full, real), (every, every, every, padded, padded[REAL].detach())


def m85(m, p):
    x, y, z = map(by_head, (p.x, p.y, p.z))
    allowed = (KEYS & TRIANGLE).flip(-1, -2)  # not causal: the module's own mask would be seen
    hidden = SimpleNamespace(mask=~allowed)
    free = type(m)(mask_flag=False).train(m.training)  # it heeds no mask, its own or given
    answers = m(x, x, x, None), m(x, x, x, hidden), free(x, x, x, hidden), free(x, y, z, None)
    assert [nothing for _, nothing in answers] == [None] * 4
    ours = [looked(p.x, p.x, p.x, seen) for seen in (TRIANGLE, allowed, None)]
    return tuple(output for output, _ in answers), (*ours, looked(p.x, p.y, p.z))


def m86(m, p):
    q, k = (
        torch.stack([dot(layer, t) for layer in layers], 1)
        for layers, t in ((m.q_layers, p.x), (m.k_layers, p.y))
    )
    scores = q @ k.mT / math.sqrt(D)

    def wanted(scores):
        return dot(m.w_h, scores.softmax(-1).mean(1) @ dot(m.v_layer, p.z))  # one map for the values of all

    hidden = ~REAL_S[:, None]
    soft = with_its_weights(m, type(m)(H, WIDTH, 0.25, mask_bias=-1.5), p.x, p.y, p.z, hidden)
    return (m(p.x, p.y, p.z), m(p.x, p.y, p.z, hidden), soft), (
        wanted(scores),
        wanted(scores.masked_fill(~KEYS_S, -math.inf)),
        wanted(torch.where(KEYS_S, scores, -1.5)),
    )


def m87(m, p):
    tokens = p.x[:, : ROWS * COLUMNS]
    wanted = recipe(tokens, tokens, [*thirds(m.qkv), m.proj])[0]
    return m(tokens.unflatten(1, (ROWS, COLUMNS))), wanted.unflatten(1, (ROWS, COLUMNS))


def m88(m, p):
    tokens = p.x[:, : ROWS * COLUMNS]
    at = [(i, j) for i in range(ROWS) for j in range(COLUMNS)]
    table = m.attention_biases.double().unflatten(1, (ROWS, COLUMNS))  # by rows and columns apart
    bias = torch.stack([torch.stack([table[:, abs(a - c), abs(b - d)] for c, d in at], 1) for a, b in at], 1)
    q, k, v = split(dot(m.qkv, norm(m.norm, tokens))).split((D, D, 2 * D), -1)
    return m(tokens), dot(m.proj, merge(look(q, k, v, bias=bias)[0]))


def m89(m, p):
    with pytest.raises(ValueError, match="no such pattern"):
        type(m)(WIDTH, "sideways", D)
    everything = with_its_weights(m, type(m)(WIDTH, "everything", D), p.x)
    layers = [*thirds(m.to_qkv), m.to_out]
    return (m(p.x), everything), tuple(recipe(p.x, p.x, layers, seen)[0] for seen in (TRIANGLE, None))


def m90(m, p):
    layers = [m.query.linear, m.key.linear, m.value.linear, m.output]
    first = {name: t.transpose(0, 1) for name, t in (("query", p.x), ("key", p.y), ("value", p.z))}
    return m(**first), recipe(p.x, p.y, layers, z=p.z)[0].transpose(0, 1)


#: file -> how it is built, and from module and problem: what it answers, and what must come out
CASES = {
    "m80": (lambda c: c(WIDTH, H, D), m80),
    "m81": (lambda c: c(WIDTH, H, D), m81),
    "m82": (lambda c: c(WIDTH, H), m82),
    "m83": (lambda c: c(), m83),
    "m84": (lambda c: c(), m84),
    "m85": (lambda c: c(), m85),
    "m86": (lambda c: c(H, WIDTH, 0.25), m86),
    "m87": (lambda c: c(WIDTH, H), m87),
    "m88": (lambda c: c(WIDTH, D, H, 2.0, (ROWS, COLUMNS)), m88),
    "m89": (lambda c: c(WIDTH, "backwards", D), m89),
    "m90": (lambda c: c(H, WIDTH), m90),
}
