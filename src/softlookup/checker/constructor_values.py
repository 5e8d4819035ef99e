"""What a module is built with: from the meaning of an argument to its value."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

#: Width of a memory, of another kind than d_model: who confuses the two gets an error.
MEMORY_WIDTH = 40
#: Longest sequence that tables of positions and triangular buffers are made for.
LENGTH = 40
WEIGHTLESS_LENGTH = 512
#: Large, so that dropout which acts where it must not is seen.
DROPOUT = 0.25
#: A value or default that only the running code knows.
UNKNOWN = object()


@dataclass(frozen=True)
class Sizes:
    """The sizes that hang together: ``d_model`` is ``num_heads * d_head``.

    >>> Sizes(48, 6, 3).d_head
    8
    """

    d_model: int
    num_heads: int
    num_kv_heads: int

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return max(1, self.d_model // self.num_heads)

    def agreeing_with(self, fixed: dict[str, int]) -> Sizes:
        """Return sizes with the fixed ones, where num_heads * d_head == d_model as far as that can be."""
        heads, width = fixed.get("heads"), fixed.get("d_model")
        if "d_head" in fixed:
            heads = heads or (max(1, width // fixed["d_head"]) if width else self.num_heads)
            width = width or heads * fixed["d_head"]
        heads = heads or self.num_heads
        width = width or (self.d_model if heads == self.num_heads else heads * self.d_head)
        divisors = (self.num_kv_heads, heads // 2, heads)
        shared = next(one for one in divisors if one and heads % one == 0)
        return Sizes(width, heads, fixed.get("kv_heads", shared))


#: Tried in this order. All differ in what divides them: three heads, powers of two, no grouping.
LADDER = (Sizes(48, 6, 3), Sizes(24, 3, 3), Sizes(64, 4, 2), Sizes(32, 2, 1), Sizes(48, 6, 6))
#: First for a class without weights, which is asked with heads of width 8.
WEIGHTLESS = Sizes(24, 3, 3)

_VALUES: dict[str, Callable[[Sizes], Any]] = {
    "bias": lambda sizes: True,
    "batch_first": lambda sizes: True,
    "mask": lambda sizes: None,
    "flag": lambda sizes: False,
    "nothing": lambda sizes: None,
    "dtype": lambda sizes: torch.float32,
    "skipped_layers": lambda sizes: 0.0,
    "kept": lambda sizes: 1 - DROPOUT,
    "dropout": lambda sizes: DROPOUT,
    "d_model": lambda sizes: sizes.d_model,
    "heads": lambda sizes: sizes.num_heads,
    "kv_heads": lambda sizes: sizes.num_kv_heads,
    "d_head": lambda sizes: sizes.d_head,
    "half_head": lambda sizes: max(2, sizes.d_head // 2),
    "rotary": lambda sizes: sizes.d_head,
    "memory": lambda sizes: MEMORY_WIDTH,
    "rank": lambda sizes: 8,
    "intermediate": lambda sizes: 2 * sizes.d_model,
    "length": lambda sizes: LENGTH,
    "window": lambda sizes: 3,
    "chunk": lambda sizes: 4,
    "layer_index": lambda sizes: 0,
    "layers": lambda sizes: 1,
    "groups": lambda sizes: 8,
    "buckets": lambda sizes: 8,
    "distance": lambda sizes: 20,
    "vocab": lambda sizes: 50,
    "slots": lambda sizes: 5,
    "rounds": lambda sizes: 3,
    "square": lambda sizes: 4,
    "one": lambda sizes: 1,
    "scale": lambda sizes: sizes.d_head**-0.5,
    "temperature": lambda sizes: sizes.d_head**0.5,
    "epsilon": lambda sizes: 1e-5,
    "theta": lambda sizes: 10_000.0,
    "alpha": lambda sizes: 16,
    "deviation": lambda sizes: 0.02,
    "norm": lambda sizes: nn.LayerNorm,
    "linear": lambda sizes: nn.Linear,
    "activation_name": lambda sizes: "relu",
    "activation": lambda sizes: functional.relu,
    "activation_class": lambda sizes: nn.ReLU,
    "implementation": lambda sizes: "eager",
    "name": lambda sizes: "attention",
    "attention_type": lambda sizes: "full",
    "position_type": lambda sizes: "absolute",
}

#: Meanings whose defaults give way: they may be large, or hide what dropout or grouping does.
GIVES_WAY = frozenset(
    [
        "d_model",
        "heads",
        "kv_heads",
        "d_head",
        "half_head",
        "rotary",
        "memory",
        "intermediate",
        "length",
        "window",
        "chunk",
        "layers",
        "groups",
        "buckets",
        "distance",
        "vocab",
        "dropout",
    ]
)
#: Sizes that a user may give, or a file may fix, and that decide the others.
DECIDES = ("d_model", "heads", "kv_heads", "d_head")

_WEIGHTLESS_VALUES = {"dropout": 0.0, "length": WEIGHTLESS_LENGTH}


def value_of(meaning: str, sizes: Sizes, *, weightless: bool = False) -> Any:
    """Return the value for a meaning.

    >>> value_of("length", LADDER[0])
    40
    """
    if weightless and meaning in _WEIGHTLESS_VALUES:
        return _WEIGHTLESS_VALUES[meaning]
    return _VALUES[meaning](sizes)


def gives_way(meaning: str, default: Any) -> bool:
    """Say whether a default is one that our value replaces: a positive size, a rate, no grouping, no window.

    A window that nobody asks for hides nothing, and whatever is wrong with it stays unseen.
    """
    if meaning in {"layer_index", "kv_heads"} and (default is None or default == 0):
        return True
    if meaning == "window" and default is None:
        return True
    if meaning not in GIVES_WAY:
        return False
    if meaning == "dropout":
        return default is UNKNOWN or type(default) in {int, float}
    if meaning in {"groups", "layers"}:
        return type(default) is int and default > 1
    if isinstance(default, tuple):
        return meaning == "window" and all(type(one) is int for one in default)
    return default is UNKNOWN or (type(default) is int and default > 0)


def words_of(name: str, source: str) -> tuple[str, ...]:
    """Return the words among which the source looks for this argument: ``kind in {"short", "long"}``.

    >>> words_of("kind", "assert kind in {'short', 'long'}")
    ('short', 'long')
    """
    word, quoted = rf"\b{re.escape(name)}\s*", r"[\"'][^\"']*[\"']"
    among = re.search(rf"{word}(?:not )?in\s+[\[({{]\s*((?:{quoted}\s*,?\s*)+)[\])}}]", source)
    equal = re.findall(rf"{word}==\s*({quoted})", source)
    return tuple(re.findall(r"[\"']([^\"']+)[\"']", among[1] if among else " ".join(equal)))


def is_pair(name: str, source: str) -> bool:
    """Say whether the source takes this argument apart, as ``size[0]`` or ``h, w = size``."""
    word = re.escape(name)
    return bool(re.search(rf"\b{word}\[[01]\]|^\s*\w+\s*,\s*\w+\s*=\s*{word}\s*$", source, re.M))
