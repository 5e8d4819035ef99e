"""Numbers of maps as bytes: 8 bits each on a scale of square roots, deflated, as base64.

A weight w becomes the code round(sqrt(w) / step), and the page reads (code * step)^2. The step of a map is at
least sqrt(its largest weight) / 255, so that every code fits into a byte. Half a step at w is sqrt(w) * step:
small weights are held more finely than large ones. In a difference the code 128 is 0.

Where a page would become large, the step is no finer than a tenth of the square root of an average weight:
codes then repeat themselves enough to be packed.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

_CODES = 255
_HALF = 127  # codes on either side of 0 in a difference
_COARSE, _COARSEST = 0.09, 1 / 127  # of the root of an average weight, and of any step that is not needed
SMALL_STEP = 1 / 64  # of small maps, which are looked at and not read


@dataclass(eq=False)
class Held:
    """What a page holds: facts are plain values; packed texts go by the name that the page asks for."""

    facts: dict[str, Any]
    packed: dict[str, str] = field(default_factory=dict)


def steps_of(tops: Tensor, codes: int, least: float) -> Tensor:
    """Return the step of each map.

    tops: the largest size of a number in each;  codes: how many codes there are for it;  least: of a step
    """
    return (tops.sqrt() / codes).clamp(min=max(least, 1e-12))


def coarse_step(k_len: int) -> float:
    """Return the least step of maps in a large page: finer ones of longer rows, whose weights are smaller.

    >>> round(1 / coarse_step(128)), round(1 / coarse_step(1024))
    (127, 356)
    """
    return min(_COARSEST, _COARSE / math.sqrt(k_len))


def codes_of(weights: Tensor, steps: Tensor) -> Tensor:
    """Return weights, 0 or larger, as codes uint8; ``steps`` broadcasts to them.

    >>> codes_of(torch.tensor([0.0, 0.0001, 0.36, 1.0]), torch.tensor(1 / 255)).tolist()
    [0, 3, 153, 255]
    """
    return weights.sqrt().div_(steps).round_().to(torch.uint8)


def weights_from(codes: Tensor, steps: Tensor) -> Tensor:
    """Return what the page reads of ``codes_of``, float32."""
    return codes.float().mul_(steps).square_()


def codes_of_differences(differences: Tensor, steps: Tensor) -> Tensor:
    """Return numbers of either sign as codes uint8: 128 is 0."""
    roots = differences.abs().sqrt_().mul_(differences.sign())
    return roots.div_(steps).round_().add_(_HALF + 1).to(torch.uint8)


def differences_from(codes: Tensor, steps: Tensor) -> Tensor:
    """Return what the page reads of ``codes_of_differences``, float32."""
    roots = (codes.float() - (_HALF + 1)).mul_(steps)
    return roots * roots.abs()


@dataclass(frozen=True)
class Scale:
    """How numbers become codes, and codes numbers; codes: how many there are for the largest number."""

    encode: Callable[[Tensor, Tensor], Tensor]
    decode: Callable[[Tensor, Tensor], Tensor]
    codes: int


WEIGHTS = Scale(codes_of, weights_from, _CODES)
GAPS = Scale(codes_of_differences, differences_from, _HALF)


def packed_bytes(codes: Tensor) -> str:
    """Return uint8 of any shape as base64 of their deflated bytes."""
    # Raw, as DecompressionStream("deflate-raw") reads. Weights repeat in runs of zeros, seldom otherwise:
    # runs and Huffman codes alone are smaller by a tenth, and faster, than a search for longer repetitions.
    deflate = zlib.compressobj(1, zlib.DEFLATED, -15, 9, zlib.Z_RLE)
    return base64.b64encode(deflate.compress(bytes_of(codes)) + deflate.flush()).decode("ascii")


def unpacked_bytes(text: str) -> Tensor:
    """Return uint8 [n] of what ``packed_bytes`` returned."""
    raw = zlib.decompress(base64.b64decode(text), -15)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8) if raw else torch.empty(0, dtype=torch.uint8)


def bytes_of(codes: Tensor) -> bytearray:
    """Return uint8 of any shape as bytes, in order."""
    raw = bytearray(codes.numel())
    if raw:
        torch.frombuffer(raw, dtype=torch.uint8).copy_(codes.reshape(-1))
    return raw


def plain(numbers: Tensor | Sequence[float]) -> list[float | None]:
    """Return numbers with 5 digits, NaN and inf as None."""
    return [short(it) for it in (numbers.tolist() if isinstance(numbers, Tensor) else numbers)]


def short(number: float) -> float | None:
    """Return a number with 5 digits; None for NaN and inf, which JSON does not have."""
    return float(f"{number:.5g}") if math.isfinite(number) else None
