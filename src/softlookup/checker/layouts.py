"""Tensors in the canonical layout [B, H, T, d], in the layout that a target wants, and back.

A layout is written as its axes, ``"B T H d"``; axes in parentheses are folded into one, ``"(B H) T d"``; an
axis that is absent has size 1.
"""

from __future__ import annotations

import re
from itertools import permutations

import torch
from torch import Tensor

CANONICAL = ("B", "H", "T", "d")


def axes_of(layout: str) -> list[str]:
    """Return the single axes of a layout, in order."""
    return re.sub(r"[()]", " ", layout).split()


def _groups(layout: str) -> list[list[str]]:
    return [(inner or single).split() for inner, single in re.findall(r"\(([^)]*)\)|(\S+)", layout)]


def arrange(tensor: Tensor, layout: str, kv_heads: int = 1) -> Tensor:
    """[B, H, T, d] -> the layout. Axes that the layout lacks must have size 1.

    kv_heads: H_kv, for layouts such as "T H_kv G d", where query heads are written as groups of G.
    """
    if "H_kv G" in layout:
        plain = arrange(tensor, layout.replace("H_kv G", "H"))
        place = layout.split().index("H_kv")
        return torch.unflatten(plain, place, (kv_heads, plain.shape[place] // kv_heads))
    axes = axes_of(layout)
    missing = [place for place, axis in enumerate(CANONICAL) if axis not in axes]
    order = [CANONICAL.index(axis) for axis in axes]
    moved = tensor.permute(*order, *missing).reshape([tensor.shape[place] for place in order])
    shape, place = [], 0
    for group in _groups(layout):
        size = 1
        for _ in group:
            size *= moved.shape[place]
            place += 1
        shape.append(size)
    return moved.reshape(shape).contiguous()


def restore(tensor: Tensor, layout: str, sizes: dict[str, int]) -> Tensor | None:
    """The layout -> [B, H, T, d]; None when the shape is not the one that these sizes give."""
    if "H_kv G" in layout:
        place = layout.split().index("H_kv")
        if tensor.dim() != len(layout.split()):
            return None
        return restore(tensor.flatten(place, place + 1), layout.replace("H_kv G", "H"), sizes)
    groups = _groups(layout)
    expected = []
    for group in groups:
        size = 1
        for axis in group:
            size *= sizes[axis]
        expected.append(size)
    if tuple(tensor.shape) != tuple(expected):
        return None
    axes = axes_of(layout)
    flat = tensor.reshape([sizes[axis] for axis in axes])
    flat = flat.reshape(*flat.shape, *[1] * (4 - len(axes)))
    names = axes + [axis for axis in CANONICAL if axis not in axes]
    return flat.permute([names.index(axis) for axis in CANONICAL])


def arrange_mask(mask: Tensor, axes: tuple[str, ...], sizes: dict[str, int]) -> Tensor | None:
    """[B or 1, H or 1, T_q or 1, T_k] -> these axes; None when the mask varies along an absent axis."""
    names = ("B", "H", "T_q", "T_k")
    full = mask.expand(
        *(sizes[n] if n in axes_of(" ".join(axes)) else mask.shape[p] for p, n in enumerate(names))
    )
    wanted = [axis for axis in axes_of(" ".join(axes)) if axis != "1"]
    absent = [place for place, name in enumerate(names) if name not in wanted]
    if any(full.shape[place] != 1 for place in absent):
        return None
    order = [names.index(axis) for axis in wanted]
    flat = full.permute(*order, *absent).reshape([full.shape[place] for place in order])
    shape, place = [], 0
    for group in _groups(" ".join(axes)):
        size = 1
        for axis in group:
            if axis != "1":
                size *= flat.shape[place]
                place += 1
        shape.append(size)
    return flat.reshape(shape).clone()


def read_weights(tensor: Tensor, sizes: dict[str, int]) -> tuple[Tensor, str] | None:
    """Find B, H, T_q, T_k in a tensor by their sizes: canonical weights, and "per head" or "averaged"."""
    B, H, T_q, T_k = (sizes[name] for name in ("B", "H", "T_q", "T_k"))
    squeezed = [size for size in tensor.shape if size != 1]
    for wanted, kind in (((B, H, T_q, T_k), "per head"), ((B, T_q, T_k), "averaged")):
        lean = [size for size in wanted if size != 1]
        if sorted(squeezed) != sorted(lean) or (kind == "averaged" and H == 1):
            continue
        flat = tensor.reshape(squeezed)
        if squeezed != lean:
            order = next(p for p in permutations(range(len(lean))) if [squeezed[i] for i in p] == lean)
            flat = flat.permute(order)
        return flat.reshape(wanted), kind
    if H > 1 and B > 1 and tuple(tensor.shape) == (B * H, T_q, T_k):
        return tensor.reshape(B, H, T_q, T_k), "per head"
    return None
