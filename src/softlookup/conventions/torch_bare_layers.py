"""Transformer layers of PyTorch that give back their attention and nothing else.

A token is [q | k | v] in every head, and the projections pick a third each, so that one input says all three.
The norms come first and are identities, the feed-forward weights are 0, and the input that a layer adds is
taken off again.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.terms import SoftlookupError

# Without memory, and so without random numbers, until it is emptied.
_OPTIONS: dict[str, Any] = {
    "dim_feedforward": 1,
    "norm_first": True,
    "bias": False,
    "batch_first": True,
    "device": "meta",
}


def bare_encoder_layer(num_heads: int, d_head: int) -> nn.TransformerEncoderLayer:
    """Return a layer that adds the attention of its tokens to them."""
    layer = nn.TransformerEncoderLayer(3 * num_heads * d_head, num_heads, **_OPTIONS)
    _empty(layer)
    _pick_thirds(layer.self_attn, num_heads, d_head)
    return layer


def bare_decoder_layer(num_heads: int, d_head: int, attention: str) -> nn.TransformerDecoderLayer:
    """Return a layer in which one attention adds something: "self_attn", or "multihead_attn" to memory."""
    layer = nn.TransformerDecoderLayer(3 * num_heads * d_head, num_heads, **_OPTIONS)
    _empty(layer)
    _pick_thirds(getattr(layer, attention), num_heads, d_head)
    return layer


def tokens_of(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Return [q | k | v] in every head: three of [B, H, T, d] -> [B, T, H*3d].

    Raises: SoftlookupError when there are not as many queries as keys.
    """
    if q.shape[2] != k.shape[2]:
        raise SoftlookupError(
            "conventions: tokens attend to themselves here.",
            expected="as many queries as keys",
            got=f"T_q = {q.shape[2]}, T_k = {k.shape[2]}",
        )
    return torch.cat([q, k, v], dim=-1).transpose(1, 2).flatten(2)


def attention_of(output: Tensor, tokens: Tensor, num_heads: int) -> Tensor:
    """Return what a layer added to its tokens: [B, T, H*3d] -> [B, H, T, d]."""
    by_head = (output - tokens).view(*output.shape[:2], num_heads, -1).transpose(1, 2)
    return by_head[..., : by_head.shape[-1] // 3]


def _empty(layer: nn.Module) -> None:
    """Take the norms out of a layer and set its weights to 0."""
    for name in ("norm1", "norm2", "norm3"):
        if hasattr(layer, name):
            setattr(layer, name, nn.Identity())
    layer.to_empty(device="cpu").eval()
    for weight in layer.parameters():
        nn.init.zeros_(weight)


def _pick_thirds(attention: nn.MultiheadAttention, num_heads: int, d_head: int) -> None:
    """Let q, k and v be the three thirds of every head; what they attend to comes out in the first one."""
    thirds = torch.eye(3 * d_head).view(3, d_head, 3 * d_head)
    projections = [torch.cat([third, torch.zeros(2 * d_head, 3 * d_head)]) for third in thirds]
    projections[0] *= math.sqrt(3)  # the scores are divided by sqrt(3 d), not sqrt(d)
    every_head = torch.eye(num_heads)
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([torch.kron(every_head, one) for one in projections]))
        attention.out_proj.weight.copy_(torch.eye(3 * num_heads * d_head))
