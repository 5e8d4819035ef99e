"""Attention of a module as one plain computation in float64 with the module's own weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from module_calls import Ask
    from module_driving import Style


@dataclass(frozen=True)
class Roles:
    """The weights by role and head, in float64: each of q, k, v is ([H, d, d_in], [H, d])."""

    q: tuple[Tensor, Tensor]
    k: tuple[Tensor, Tensor]
    v: tuple[Tensor, Tensor]
    out: tuple[Tensor, Tensor]  # [d_model, H * d_v], [d_model]


def _weights(layer: nn.Module, name: str) -> tuple[Tensor, Tensor]:
    """The weight and the bias of a linear layer, or of nn.MultiheadAttention's in_proj_weight."""
    found = getattr(layer, name, None)
    weight = getattr(layer, f"{name}_weight") if found is None else found.weight
    bias = getattr(layer, f"{name}_bias", None) if found is None else found.bias
    weight = weight.detach().double()
    return weight, weight.new_zeros(weight.shape[0]) if bias is None else bias.detach().double()


def _cut(pair: tuple[Tensor, Tensor], width: int) -> tuple[Tensor, Tensor]:
    """Cut the rows into heads of ``width`` rows."""
    weight, bias = pair
    return torch.stack(weight.split(width)), torch.stack(bias.split(width))


def of(q: str, k: str, v: str, out: str) -> Callable[[nn.Module, int], Roles]:
    """Roles of four linear layers."""

    def roles(layer: nn.Module, heads: int) -> Roles:
        q_pair, out_pair = _weights(layer, q), _weights(layer, out)
        d, d_v = q_pair[0].shape[0] // heads, out_pair[0].shape[1] // heads
        return Roles(_cut(q_pair, d), _cut(_weights(layer, k), d), _cut(_weights(layer, v), d_v), out_pair)

    return roles


def fused(qkv: str, out: str) -> Callable[[nn.Module, int], Roles]:
    """Roles of one layer whose rows are queries, keys, values."""

    def roles(layer: nn.Module, heads: int) -> Roles:
        weight, bias = _weights(layer, qkv)
        width = weight.shape[0] // (3 * heads)
        three = zip(weight.chunk(3), bias.chunk(3), strict=True)
        q, k, v = (_cut(pair, width) for pair in three)
        return Roles(q, k, v, _weights(layer, out))

    return roles


def interleaved(qkv: str, out: str) -> Callable[[nn.Module, int], Roles]:
    """Roles of one layer whose rows are q, k and v of the first head, then of the next one."""

    def roles(layer: nn.Module, heads: int) -> Roles:
        weight, bias = _cut(_weights(layer, qkv), _weights(layer, qkv)[0].shape[0] // (3 * heads))
        q, k, v = ((weight[role::3], bias[role::3]) for role in range(3))
        return Roles(q, k, v, _weights(layer, out))

    return roles


def to_out(q: str, kv: str, out: str) -> Callable[[nn.Module, int], Roles]:
    """Roles of a layer of queries and one of keys, then values."""

    def roles(layer: nn.Module, heads: int) -> Roles:
        weight, bias = _weights(layer, kv)
        width = weight.shape[0] // (2 * heads)
        k, v = (_cut(pair, width) for pair in zip(weight.chunk(2), bias.chunk(2), strict=True))
        return Roles(_cut(_weights(layer, q), width), k, v, _weights(layer, out))

    return roles


def by_head(layer: Any, heads: int) -> Roles:
    """Roles of a list of single heads."""

    def role(name: str) -> tuple[Tensor, Tensor]:
        found = [_weights(head, name) for head in layer.heads]
        return torch.stack([weight for weight, _ in found]), torch.stack([bias for _, bias in found])

    return Roles(role("query"), role("key"), role("value"), _weights(layer, "proj"))


def by_parameter(layer: Any, heads: int) -> Roles:
    """Roles of tensors [H, d_model, d_head]."""

    def role(weight: Tensor) -> tuple[Tensor, Tensor]:
        weight = weight.detach().double().transpose(1, 2)
        return weight, weight.new_zeros(weight.shape[:2])

    out = layer.w_out.detach().double()
    return Roles(
        role(layer.w_query),
        role(layer.w_key),
        role(layer.w_value),
        (out.flatten(0, 1).T, out.new_zeros(out.shape[2])),
    )


def alibi(heads: int, T: int) -> Tensor:
    """Linear biases [H, T, T]: minus the slope times the distance."""
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], dtype=torch.float64)
    return -slopes[:, None, None] * (torch.arange(T)[:, None] - torch.arange(T)[None, :]).abs()


def _turned(x: Tensor, pairing: str) -> Tensor:
    """Turn x [B, H, T, d] by its positions, as complex numbers."""
    d = x.shape[-1]
    real, imaginary = x.chunk(2, dim=-1) if pairing == "half" else (x[..., ::2], x[..., 1::2])
    speed = torch.tensor([10000.0 ** (-2 * i / d) for i in range(d // 2)], dtype=torch.float64)
    angle = torch.arange(x.shape[2])[:, None] * speed
    turned = torch.complex(real, imaginary) * torch.complex(angle.cos(), angle.sin())
    parts = (turned.real, turned.imag)
    return torch.cat(parts, dim=-1) if pairing == "half" else torch.stack(parts, dim=-1).flatten(-2)


def _projected(x: Tensor, role: tuple[Tensor, Tensor]) -> Tensor:
    return torch.einsum("bte,hde->bhtd", x, role[0]) + role[1][:, None, :]


def allowed_of(style: Style, ask: Ask) -> Tensor:
    """Return who may look at whom, bool [B, 1, T_q, T_k]."""
    T_q, T_k = ask.x.shape[1], ask.source.shape[1]
    i, j = torch.arange(T_q)[:, None] + (T_k - T_q), torch.arange(T_k)[None, :]
    allowed = torch.ones(ask.x.shape[0], 1, T_q, T_k, dtype=torch.bool)
    if ask.causal or "always causal" in style.can:
        allowed = allowed & (j <= i)
    window = {**style.sizes, **ask.options}.get(style.window)
    if window is not None:
        allowed = allowed & (i - j < window)
    if ask.keys is not None:
        allowed = allowed & ask.keys.bool()[:, None, None, :]
    if ask.mask is not None:
        allowed = allowed & ask.mask.bool()
    if ask.documents is not None:
        allowed = allowed & (ask.documents[:, None, :, None] == ask.documents[:, None, None, :])
    return allowed


def lookup(style: Style, layer: nn.Module, ask: Ask) -> tuple[Tensor, Tensor]:
    """Return output and weights, from the weights of ``layer``."""
    roles = style.roles(layer, style.heads)
    q = _projected(ask.x.double(), roles.q)
    k, v = (_projected(ask.source.double(), role) for role in (roles.k, roles.v))
    if style.rotary:
        q, k = _turned(q, style.rotary), _turned(k, style.rotary)
    group = style.heads // k.shape[1]
    shared = torch.arange(style.heads) // group
    k, v = k[:, shared], v[:, shared]
    said = [s for s in (ask.scale, *(ask.options.get(n) for n in SCALES)) if s is not None]
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * (said[0] if said else 1 / math.sqrt(q.shape[-1]))
    if style.bias is not None:
        scores = scores + style.bias(style.heads, scores.shape[-1])
    if ask.bias is not None:
        scores = scores + ask.bias.double()
    allowed = allowed_of(style, ask)
    scores = scores.masked_fill(~allowed, -math.inf)
    empty = scores.isneginf().all(dim=-1, keepdim=True)
    shares = (scores - scores.amax(dim=-1, keepdim=True).masked_fill(empty, 0.0)).exp()
    weights = (shares / shares.sum(dim=-1, keepdim=True)).masked_fill(empty, 0.0)
    mixed = torch.einsum("bhij,bhjd->bihd", weights, v).flatten(2)
    output = mixed @ roles.out[0].T + roles.out[1]
    return style.finish(layer, ask, output), weights


#: Constructor arguments that are the factor on the scores.
SCALES = ("scale", "qk_scale", "softmax_scale")
