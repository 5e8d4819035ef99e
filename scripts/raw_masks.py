"""Raw mask tensors of every shape that people give, and the weights that each of them asks for.

A mask is first [B or 1, H or 1, T_q or 1, T_k or 1], with the axes that its shape has, then brought into it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.conventions.measuring import WIDTH, problem
from softlookup.conventions.spelling import Sizes, Takes
from softlookup.conventions.tensors import to_additive

#: The shapes that are tried. "1" is an axis of one entry.
SHAPES = (
    "T_k",
    "T_q T_k",
    "B T_k",
    "B T_q T_k",
    "B 1 1 T_k",
    "B 1 T_q T_k",
    "1 H T_q T_k",
    "B H T_q T_k",
    "B*H T_q T_k",
)
#: What else a tensor of a tried shape can be taken for.
READINGS = (*SHAPES, "H T_q T_k", "B T_q", "H T_k", "H 1 T_k", "B 1 T_k", "H*B T_q T_k")
DTYPES = {"bool": torch.bool, "int": torch.int64, "float": torch.float32}

_AXES = ("B", "H", "T_q", "T_k")


def _by_axis(sizes: Sizes) -> dict[str, int]:
    of = sizes.batch_size, sizes.num_heads, sizes.q_len, sizes.k_len
    return {axis: size or 1 for axis, size in zip(_AXES, of, strict=True)}


def _shape_of(shape: str, sizes: Sizes) -> list[int]:
    by_axis = _by_axis(sizes) | {"1": 1}
    found = []
    for axis in shape.split():
        first, _, second = axis.partition("*")
        found.append(by_axis[first] * (by_axis[second] if second else 1))
    return found


def small_sizes(shape: str, sizes: Sizes) -> list[int]:
    """Return [B or 1, H or 1, T_q or 1, T_k or 1]: the axes that a shape has."""
    present = set(shape.replace("*", " ").split())
    return [size if axis in present else 1 for axis, size in _by_axis(sizes).items()]


def in_shape(small: Tensor, shape: str, sizes: Sizes) -> Tensor:
    """Return [B or 1, H or 1, T_q or 1, T_k or 1] in the shape whose axes it has."""
    if shape.startswith("H*B"):
        small = small.transpose(0, 1)
    return small.reshape(_shape_of(shape, sizes))


def fits(tensor: Tensor, shape: str, sizes: Sizes) -> bool:
    """Say whether a tensor can be taken for one of this shape."""
    return list(tensor.shape) == _shape_of(shape, sizes)


def random_mask(shape: str, sizes: Sizes) -> Tensor:
    """Return bool [B or 1, H or 1, T_q or 1, T_k] in which every row sees some key and misses some."""
    chances = torch.rand(small_sizes(shape, sizes), generator=torch.Generator().manual_seed(7))
    allowed = chances > 0.5
    allowed.scatter_(-1, chances.argmax(-1, keepdim=True), True)
    return allowed.scatter_(-1, chances.argmin(-1, keepdim=True), False)


def weights_for(tensor: Tensor, shape: str, sizes: Sizes) -> Tensor:
    """Return the weights [B, H, T_q, T_k] when a bool tensor of this shape says who may look."""
    small = small_sizes(shape, sizes)
    if shape.startswith("H*B"):
        small[:2] = small[1::-1]
    allowed = tensor.reshape(small)
    if shape.startswith("H*B"):
        allowed = allowed.transpose(0, 1)
    return scores_of(sizes).masked_fill(~allowed, -torch.inf).softmax(-1)


def encoded(allowed: Tensor, take: Takes) -> Tensor:
    """Return what an argument is given to say a bool tensor, True = may look."""
    if take.meaning == "additive":
        return to_additive(allowed)
    return (allowed if take.meaning == "allowed" else ~allowed).to(DTYPES[take.dtype])


def scores_of(sizes: Sizes) -> Tensor:
    """Return the scores [B, H, T_q, T_k] of the problem that every call is given."""
    q, k, _ = problem(sizes)
    return q @ k.transpose(-2, -1) / WIDTH**0.5


def close(found: Tensor, wanted: Tensor, atol: float = 1e-4) -> bool:
    """Say whether weights agree; a row that may look nowhere is nobody's answer."""
    some = ~wanted.isnan().any(-1)
    return found.shape == wanted.shape and torch.allclose(found[some], wanted[some], atol=atol)
