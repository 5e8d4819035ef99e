"""Numbers of maps as bytes: 8 bits each on a scale of square roots, deflated, as base64.

A weight w of a map whose largest one is ``top`` becomes the code round(255 * sqrt(w / top)), and the page
reads top * (code / 255)^2. Neighbouring codes lie 0.0078 * top apart near the top and 0.000015 * top at the
bottom, so small weights keep their order. Runs of zeros, half of every causal map, take next to no room.
"""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

_CODES = 255
_HALF = 127  # codes on either side of 0 in a difference
# Fast: maps of a trained model shrink by 2 % more at the highest level, in ten times the time.
_LEVEL = 1


@dataclass(eq=False)
class Held:
    """What a page holds: facts are plain values; packed texts go by the name that the page asks for."""

    facts: dict[str, Any]
    packed: dict[str, str] = field(default_factory=dict)


def codes_of(weights: Tensor, top: Tensor) -> Tensor:
    """Return weights, 0 or larger, as codes uint8; ``top`` is their largest, or broadcasts to such.

    >>> codes_of(torch.tensor([0.0, 0.0001, 0.25, 1.0]), torch.tensor(1.0)).tolist()
    [0, 3, 128, 255]
    """
    return (weights / _divisor(top)).sqrt_().mul_(_CODES).round_().to(torch.uint8)


def weights_from(codes: Tensor, top: Tensor) -> Tensor:
    """Return what the page reads of ``codes_of``, float32."""
    return (codes.float() / _CODES).square_().mul_(top)


def codes_of_differences(differences: Tensor, top: Tensor) -> Tensor:
    """Return numbers of either sign as codes uint8: 128 is 0; ``top`` is the largest size."""
    share = differences / _divisor(top)
    return (share.abs().sqrt_() * share.sign_()).mul_(_HALF).round_().add_(_HALF + 1).to(torch.uint8)


def differences_from(codes: Tensor, top: Tensor) -> Tensor:
    """Return what the page reads of ``codes_of_differences``, float32."""
    share = (codes.float() - (_HALF + 1)) / _HALF
    return share * share.abs() * top


def packed_bytes(codes: Tensor) -> str:
    """Return uint8 of any shape as base64 of their deflated bytes."""
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, -15)  # raw, as DecompressionStream("deflate-raw") reads
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


def _divisor(top: Tensor) -> Tensor:
    """Return the largest ones, and 1 where all are 0."""
    return torch.where(top > 0, top, torch.ones_like(top))


def plain(numbers: Tensor | Sequence[float]) -> list[float | None]:
    """Return numbers with 5 digits, NaN and inf as None."""
    return [short(it) for it in (numbers.tolist() if isinstance(numbers, Tensor) else numbers)]


def short(number: float) -> float | None:
    """Return a number with 5 digits; None for NaN and inf, which JSON does not have."""
    return float(f"{number:.5g}") if math.isfinite(number) else None
