"""Proofs of modules whose recipe is the plain one: only the names of their layers differ."""

from recipe_of_modules import norm, recipe, thirds
from torch import nn


def plain(names, call=lambda m, p: m(p.x), allowed=None, other="x", **more):
    """A file whose recipe is the plain one with these four layers."""

    def case(m, p):
        layers = [getattr(m, name) for name in names.split()]
        layers += [None] * (4 - len(layers))
        return call(m, p), recipe(p.x, getattr(p, other), layers, allowed, **more)[0]

    return case


def fused_plain(names, **more):
    """The same for one fused layer and an output layer."""

    def case(m, p):
        qkv, *out = [getattr(m, name) for name in names.split()]
        out = out[0][0] if out and isinstance(out[0], nn.Sequential) else out[0]
        x = norm(m.norm, p.x) if hasattr(m, "norm") else p.x
        got = m(p.x)
        return got[0] if isinstance(got, tuple) else got, recipe(x, x, [*thirds(qkv), out], **more)[0]

    return case
