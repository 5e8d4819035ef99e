"""Attention on CUDA: which of PyTorch's kernels takes which mask.

    no mask, causal                   F.scaled_dot_product_attention, whose own choice is flash or cuDNN
    documents, padding, windows, ...  varlen_attn, a call for each window: see ``segments``
    everything else                   FlexAttention, compiled once for each mask: see ``flex``

All of it was written from the documentation and the source of torch 2.13 and has run on no GPU yet: the tests
run what a CPU can (FlexAttention uncompiled, and segments with a stand-in for the kernel), and
``benchmarks/gpu.py`` compares every line with the readable attention before it times anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from inspect import signature
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from softlookup.fused.flex import flex_attention_of
from softlookup.fused.glance import plain
from softlookup.fused.segments import Segment, Window, segments_of
from softlookup.masks import Bias, Mask
from softlookup.masks.numbered import with_number
from softlookup.masks.spans import spans_of
from softlookup.remembering import remembered

#: Output [B, H, T_q, d_v] and log-sum-exp [B, H, T_q]; None where a kernel does not tell it.
Found: TypeAlias = tuple[Tensor, Tensor | None]

_HALF = (torch.float16, torch.bfloat16)
_WIDEST = 256  # the widest head of the flash kernels


@dataclass(frozen=True)
class Packed:
    """Segments that share a window, as index tensors on the device.

    rows, keys: which of the B * T_q queries and B * T_k keys take part, in order; None: all of them
    q_bounds, k_bounds: int32 [segments + 1], where each segment starts
    """

    window: Window
    rows: Tensor | None
    keys: Tensor | None
    q_bounds: Tensor
    k_bounds: Tensor
    longest: tuple[int, int]


def attend_on_cuda(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Mask | Bias | Tensor | None,
    scale: float,
    *,
    with_lse: bool = False,
) -> Found:
    """Return output and, where asked for, the log-sum-exp, by the kernel that suits the mask.

    q: [B, H, T_q, d]   k: [B, H_kv, T_k, d]   v: [B, H_kv, T_k, d_v]
    """
    if plain(mask, q.shape[-2], k.shape[-2]):
        found = by_flag(q, k, v, mask is not None, scale, with_lse=with_lse)
        if found is not None:
            return found
    packed = packed_of(mask, q, k, v)
    if packed is not None:
        return by_varlen(q, k, v, packed, scale)
    return flex_attention_of(q, k, v, mask, scale)


def by_flag(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, *, with_lse: bool) -> Found | None:
    """Call F.scaled_dot_product_attention or an operator behind it, which tells more; None: none will do."""
    grouped = q.shape[1] != k.shape[1]
    if not with_lse:
        return torch_attention(q, k, v, is_causal=causal, scale=scale, enable_gqa=grouped), None
    if grouped:
        return None
    # On its own, the flash operator ends the diagonal at the last key where F starts it at the first.
    if _flash_takes(q, v) and (not causal or q.shape[-2] == k.shape[-2]):
        found = torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False, scale=scale)
    elif q.dtype == torch.float64:
        return None
    else:
        found = torch.ops.aten._scaled_dot_product_efficient_attention(
            q, k, v, None, True, 0.0, causal, scale=scale
        )
    return found[0], found[1][..., : q.shape[-2]]  # its rows are rounded up to a multiple of 32


def packed_of(
    mask: Mask | Bias | Tensor | None, q: Tensor, k: Tensor, v: Tensor
) -> tuple[Packed, ...] | None:
    """Return the calls of varlen_attn that make up a mask; None where it cannot be said in them."""
    if isinstance(mask, Mask) and _flash_takes(q, v) and _varlen_attn() is not None:
        return _packed(mask.number, q.shape[-2], k.shape[-2], q.shape[0], q.device)
    return None


@lru_cache
def _varlen_attn() -> Callable[..., tuple[Tensor, Tensor]] | None:
    """Return PyTorch's function; None where it is missing or is the first one, which has no windows."""
    try:
        found = import_module("torch.nn.attention.varlen").varlen_attn
    except ImportError:
        return None
    return found if {"window_size", "enable_gqa"} <= set(signature(found).parameters) else None


def _flash_takes(q: Tensor, v: Tensor) -> bool:
    width = q.shape[-1]
    return q.dtype in _HALF and width == v.shape[-1] <= _WIDEST and width % 8 == 0


@remembered(maxsize=64)
def _packed(
    number: int, q_len: int, k_len: int, batch: int, device: torch.device
) -> tuple[Packed, ...] | None:
    """Remembered, since every layer of a model asks with the same mask."""
    spans = spans_of(with_number(number), q_len, k_len)
    groups = None if spans is None else segments_of(spans, batch)
    if groups is None:
        return None
    return tuple(
        _pack(window, segments, (q_len, k_len, batch), device) for window, segments in groups.items()
    )


def _pack(
    window: Window, segments: list[Segment], sizes: tuple[int, int, int], device: torch.device
) -> Packed:
    q_len, k_len, batch = sizes
    queries = [(s.sample * q_len + s.q_start, s.sample * q_len + s.q_stop) for s in segments]
    keys = [(s.sample * k_len + s.k_start, s.sample * k_len + s.k_stop) for s in segments]
    return Packed(
        window,
        _places(queries, batch * q_len, device),
        _places(keys, batch * k_len, device),
        _bounds(queries, device),
        _bounds(keys, device),
        (max(b - a for a, b in queries), max(b - a for a, b in keys)),
    )


def _places(ranges: list[tuple[int, int]], number: int, device: torch.device) -> Tensor | None:
    """Return all places of some ranges; None when they are 0, 1, ... number - 1."""
    places = torch.cat([torch.arange(start, stop) for start, stop in ranges])
    everything = len(places) == number and bool((places == torch.arange(number)).all())
    return None if everything else places.to(device)


def _bounds(ranges: list[tuple[int, int]], device: torch.device) -> Tensor:
    lengths = torch.tensor([0, *(stop - start for start, stop in ranges)])
    return lengths.cumsum(0).to(device, torch.int32)


def by_varlen(
    q: Tensor, k: Tensor, v: Tensor, packed: tuple[Packed, ...], scale: float
) -> tuple[Tensor, Tensor]:
    """Call varlen_attn for each window and put the rows together; a query without keys gets 0 and -inf."""
    rows, keys, values = (x.transpose(1, 2).flatten(0, 1) for x in (q, k, v))  # [B * T, H, d]
    output, lse = torch.zeros_like(rows), q.new_full(rows.shape[:2], -math.inf, dtype=torch.float32)
    for call in packed:
        taken = _taken(rows, call.rows), _taken(keys, call.keys), _taken(values, call.keys)
        part, part_lse = _one_call(taken, call, scale)
        output = part if call.rows is None else output.index_copy(0, call.rows, part)
        lse = part_lse if call.rows is None else lse.index_copy(0, call.rows, part_lse)
    output, lse = (x.view(len(q), -1, *x.shape[1:]).transpose(1, 2) for x in (output, lse))
    return output, lse


def _taken(x: Tensor, places: Tensor | None) -> Tensor:
    return x if places is None else x.index_select(0, places)


def _one_call(tensors: tuple[Tensor, Tensor, Tensor], call: Packed, scale: float) -> tuple[Tensor, Tensor]:
    """[queries, H, d], [keys, H_kv, d] -> output [queries, H, d] and log-sum-exp [queries, H]."""
    varlen_attn = _varlen_attn()
    assert varlen_attn is not None
    output, lse = varlen_attn(
        *tensors,
        call.q_bounds,
        call.k_bounds,
        *call.longest,
        return_aux=import_module("torch.nn.attention.varlen").AuxRequest(lse=True),
        scale=scale,
        window_size=call.window,
        enable_gqa=tensors[0].shape[1] != tensors[1].shape[1],
    )
    return output, lse.detach().transpose(0, 1)  # the kernel returns [H, queries], whatever its page says
