"""Attention with the weights of a module, worked out in plain torch: what a wild module ought to answer."""

import torch
import torch.nn.functional as F

from wild_checks import B, S, T, attend

WIDTH, HEADS = 16, 4
torch.manual_seed(1)
X, Y, Z = torch.randn(B, T, WIDTH), torch.randn(B, S, WIDTH), torch.randn(B, S, WIDTH)
SOME = torch.rand(T, T).gt(0.5) | torch.eye(T).bool()  # a mask for every sample; every row has a key
PER_SAMPLE = torch.rand(B, T, T).gt(0.5) | torch.eye(T).bool()
CROSS = torch.rand(T, S).gt(0.4) | torch.eye(T, S).bool()
MEMORY = torch.tensor([[1, 1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0]]).bool()


def heads_of(x, heads=HEADS):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).flatten(2)


def lookup(q, k, v, allowed=None, *, heads=HEADS, scale=None):
    """Projected q, k, v: (B, T, heads * d_head) -> the concatenated heads."""
    return merged(attend(*(heads_of(x, heads) for x in (q, k, v)), allowed, scale))


def with_layers(module, names, x=(X, X, X), allowed=None, **options):
    """The answer of attention through the layers of these names: q, k, v and, unless it is missing, out."""
    q, k, v, *out = (module.get_submodule(name) for name in names.split())
    mixed = lookup(q(x[0]), k(x[1]), v(x[2]), allowed, **options)
    return out[0](mixed) if out else mixed


def with_fused(module, names, x=X, allowed=None, **options):
    """The same with q | k | v in one layer."""
    fused, out = (module.get_submodule(name) for name in names.split())
    return out(lookup(*fused(x).chunk(3, dim=-1), allowed, **options))


def with_torch_layer(layer, x=X, allowed=None):
    """The same for the weights of an nn.MultiheadAttention; x: batch first."""
    qkv = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    return layer.out_proj(lookup(*qkv, allowed))


def turned(x, angle, pairs):
    """x: (B, T, H, d) turned by angle (T, d / 2); pairs: "halves" (i, i + d/2) or "neighbours" (2i, 2i + 1)."""
    a, b = x.chunk(2, -1) if pairs == "halves" else (x[..., 0::2], x[..., 1::2])
    z = torch.complex(a, b) * torch.polar(torch.ones(()), angle)[:, None]
    return (
        torch.cat((z.real, z.imag), -1)
        if pairs == "halves"
        else torch.stack((z.real, z.imag), -1).flatten(-2)
    )


def rotary(q, k, v, allowed, pairs):
    d = WIDTH // HEADS
    angle = torch.outer(torch.arange(T), 10000.0 ** (-torch.arange(0, d, 2) / d))
    q, k = (turned(x.unflatten(-1, (HEADS, -1)), angle, pairs).flatten(2) for x in (q, k))
    return lookup(q, k, v, allowed)
