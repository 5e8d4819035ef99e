"""Draw what a call is given: every argument by its name, tensors entry by entry."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.discover import Convention
from softlookup.conventions.spelling import Meaning
from softlookup.conventions.tensors import as_tensor, dtype_kind

_SAYS: dict[Meaning, str] = {
    "allowed": "may look",
    "blocked": "hidden",
    "additive": "is added to the scores",
    "bounds": "bounds of documents",
}


def draw_arguments(convention: Convention, arguments: Mapping[str, Any], most: float = math.inf) -> str:
    """Return one block of lines for every argument; ``1`` is True or 1, ``.`` is False or 0.

    most: tensors of more entries are named with their shape, and not drawn
    """
    lines = (line for name, value in arguments.items() for line in _lines(convention, name, value, most))
    return "\n".join(lines)


def _lines(convention: Convention, name: str, value: Any, most: float) -> list[str]:
    if isinstance(value, tuple) and any(isinstance(it, Tensor) for it in value):
        return [line for n, it in enumerate(value) for line in _lines(convention, f"{name}[{n}]", it, most)]
    if not isinstance(value, Tensor) and not hasattr(value, "__array__"):
        plain = isinstance(value, (bool, int, float, str, tuple, list, type(None)))
        return [f"{name}={value!r}" if plain else f"{name}: {type(value).__name__}"]
    tensor = as_tensor(value, convention.name)
    dtype = str(tensor.dtype).removeprefix("torch.")
    lines = [f"{name}: {dtype} {list(tensor.shape)}{_meaning(convention, name, tensor)}"]
    if tensor.numel() > most:
        return [f"{lines[0]} (too large to draw)"]
    if tensor.dim() < 2:
        return [f"{name}={tensor.tolist()}"]
    for place in itertools.product(*map(range, tensor.shape[:-2])):
        lines += [str(list(place))] * (tensor[..., 0, 0].numel() > 1)
        lines += _rows(tensor[place])
    return lines


def _meaning(convention: Convention, name: str, tensor: Tensor) -> str:
    kind = dtype_kind(tensor)
    for it in convention.takes:
        if (it.argument, it.dtype) == (name.partition("[")[0], kind):
            return f", {_SAYS[it.meaning]}" if it.meaning == "additive" else f", 1 = {_SAYS[it.meaning]}"
    return ""


def _rows(matrix: Tensor) -> list[str]:
    numbers = matrix.tolist()
    if matrix.dtype.is_floating_point:
        least = torch.finfo(matrix.dtype).min
        cells = [
            ["min" if n == least else "-inf" if n == -math.inf else f"{n:g}" for n in row] for row in numbers
        ]
    else:
        cells = [[str(int(n)) if n else "." for n in row] for row in numbers]
    width = max((len(cell) for row in cells for cell in row), default=1)
    return [" ".join(cell.rjust(width) for cell in row) for row in cells]
