"""Queries and keys out of the tokens that torch's fused layers are given, which project themselves."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear

from softlookup.live.problem import Problem, from_products

#: How these operators read a mask: hidden keys of queries, hidden keys of samples; else both, in four axes.
_BY_QUERY, _BY_KEY = 0, 1


@torch.no_grad()
def projected(
    query: Tensor,
    key: Tensor,
    packed: tuple[Tensor, Tensor | None, int],
    masked: tuple[Tensor | None, int | None],
    output: Tensor,
) -> Problem:
    """Return the problem of tokens [B, T, d_model], a packed projection, and a mask in which True hides."""
    weight, bias, heads = packed
    query, key, kept = _without_nesting(query, key)
    query, key = query.to(weight.dtype), key.to(weight.dtype)  # autocast rounds them once more
    width = weight.shape[0] // 3
    with torch.autocast(weight.device.type, enabled=False):
        q = linear(query, weight[:width], None if bias is None else bias[:width])
        k = linear(key, weight[width : 2 * width], None if bias is None else bias[width : 2 * width])
    q, k = (torch.unflatten(it, -1, (heads, -1)).transpose(1, 2) for it in (q, k))  # [B, H, T, d_head]
    plain = None if output.is_nested else output
    return from_products(q, k, _allowed(*masked, kept), output=plain)


def _without_nesting(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """Tokens padded with zeros where they were nested, and which of them are real: bool [B, T]."""
    if not query.is_nested:
        return query, key, None
    lengths = torch.tensor([len(it) for it in key.unbind()])
    query, key = (it.to_padded_tensor(0.0) for it in (query, key))
    return query, key, torch.arange(key.shape[1]) < lengths[:, None]


def _allowed(mask: Tensor | None, mask_type: int | None, kept: Tensor | None) -> Tensor | None:
    """Bool, broadcastable to [B, H, T_q, T_k], True = may look."""
    if kept is not None:
        return kept[:, None, None, :]
    if mask is None:
        return None
    if mask_type == _BY_QUERY:
        hidden = mask if mask.dim() == 2 else mask[:, None]
    elif mask_type == _BY_KEY:
        hidden = mask[:, None, None, :]
    else:
        hidden = mask
    if hidden.dtype != torch.bool:
        return hidden  # numbers that are added
    return ~hidden
