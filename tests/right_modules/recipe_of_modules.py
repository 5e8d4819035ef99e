"""Plain multi-head attention in float64: `look` is the formula, the rest says which weights are whose."""

import math
from types import SimpleNamespace

import torch
from inputs_of_modules import H_KV, H
from torch.nn import functional


def look(q, k, v, allowed=None, bias=0.0, scale=None, cap=None, sink=None):
    """softmax(q k^T * scale + bias) v on [B, H, T, d], and the weights; fewer key heads serve neighbours."""
    k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    scores = scores if cap is None else cap * (scores / cap).tanh()
    scores = scores + bias
    scores = scores if allowed is None else scores.masked_fill(~allowed, -math.inf)
    total = scores.exp().sum(-1, keepdim=True) + (0.0 if sink is None else sink.exp())
    weights = scores.exp() / total
    return torch.einsum("bhij,bhjd->bhid", weights, v), weights


def dot(layer, x):
    """A linear layer, or a 1x1 convolution over [B, T, C], in float64."""
    out = torch.einsum("...i,oi->...o", x.double(), layer.weight.double().flatten(1))
    return out if layer.bias is None else out + layer.bias.double()


def split(x, heads=H):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merge(x):
    return x.transpose(1, 2).flatten(2)


def recipe(x, y, layers, allowed=None, heads=H, kv_heads=None, z=None, **more):
    """Multi-head attention of x to y with the layers q, k, v, out (or None): the output and the weights."""
    q, k, v, out = layers
    queries = split(dot(q, x), heads)
    keys = split(dot(k, y), kv_heads or heads)
    values = split(dot(v, y if z is None else z), kv_heads or heads)
    mixed, weights = look(queries, keys, values, allowed, **more)
    return (merge(mixed) if out is None else dot(out, merge(mixed))), weights


def rows(layer, *widths):
    """Cut one fused layer into layers, by rows."""
    biases = [None] * len(widths) if layer.bias is None else layer.bias.split(widths)
    return [
        SimpleNamespace(weight=w, bias=b) for w, b in zip(layer.weight.split(widths), biases, strict=True)
    ]


def thirds(layer):
    return rows(layer, *[layer.weight.shape[0] // 3] * 3)


def norm(layer, x):
    bias = None if layer.bias is None else layer.bias.double()
    return functional.layer_norm(x.double(), x.shape[-1:], layer.weight.double(), bias, layer.eps)


def rms(layer, x):
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * layer.weight.double()


def turned(x, pairs, base=10000.0):
    """Rotate pairs of features, taken as complex numbers, by position times frequency. x: [B, H, T, d]."""
    d = x.shape[-1]
    angles = torch.outer(torch.arange(x.shape[2]).double(), base ** (-torch.arange(0, d, 2).double() / d))
    a, b = x.chunk(2, -1) if pairs == "halves" else (x[..., 0::2], x[..., 1::2])
    c = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((c.real, c.imag), -1)  # a common order of features does not change a product


def rotary(x, layers, pairs, allowed, kv_heads=H_KV):
    q, k, v, out = layers
    queries, keys = (turned(split(dot(f, x), h), pairs) for f, h in ((q, H), (k, kv_heads)))
    mixed, weights = look(queries, keys, split(dot(v, x), kv_heads), allowed)
    return dot(out, merge(mixed)), weights


def hiding(allowed, dtype, low=-math.inf):
    return torch.zeros(allowed.shape, dtype=dtype).masked_fill(~allowed, low)


def pixels(image):
    return image.flatten(2).transpose(1, 2)


def picture(tokens):
    return tokens.transpose(1, 2).unflatten(2, (3, 3))


def qkvo(module, names):
    return [getattr(module, name) for name in names.split()]
