"""What a row of the tables of packages is, and what the calls in it are given."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("KERAS_BACKEND", "torch")

B, T, S, WIDTH, H, H_KV, D, MEMORY = 2, 7, 5, 48, 6, 3, 8, 40


@dataclass(frozen=True)
class Row:
    """One attention module of a package."""

    name: str
    build: Callable[[], Any]
    call: Callable[[Any], Any]  # one forward pass, as its users write it
    note: str | None = None  # names its known variant
    contract: dict[str, Any] = field(default_factory=dict)  # what nothing in the module says
    blamed_because: str = ""  # why it is not clean yet
    bug: str = ""  # a true bug of the package, which must be named


def tokens(width: int = WIDTH) -> torch.Tensor:
    """Return the tokens that look, [B, T, width]."""
    return torch.randn(B, T, width, generator=torch.Generator().manual_seed(1))


def memory(width: int = WIDTH) -> torch.Tensor:
    """Return what cross-attention looks at, [B, S, width]."""
    return torch.randn(B, S, width, generator=torch.Generator().manual_seed(2))


def angles(width: int = D) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosines and sines of rotary positions, each [B, T, width]: half the width, repeated."""
    rates = 10000.0 ** (-torch.arange(0, width, 2) / width)
    turns = torch.outer(torch.arange(T), rates).repeat(1, 2).expand(B, T, width)
    return turns.cos(), turns.sin()


def triangle() -> torch.Tensor:
    """Return the additive causal mask [B, 1, T, T]."""
    return torch.full((T, T), -torch.inf).triu(1).expand(B, 1, T, T)


def falling() -> torch.Tensor:
    """ALiBi by key position, [B * H, 1, T]."""
    slopes = 2.0 ** (-8 * torch.arange(1, H + 1) / H)
    return (slopes[:, None, None] * torch.arange(T)).repeat(B, 1, 1)


def alone(module: Any) -> Any:
    """Self-attention without a mask."""
    return module(tokens())
