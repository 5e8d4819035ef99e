"""What a built module holds, seen from outside: its weights, its parts and its plain settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from softlookup.checker.calls import Weight

_CONFIGS = {"config", "cfg", "args", "hparams"}
#: What a module calls the width of a token, and the number of its heads.
_WIDTHS = ("d_model", "embed_dim", "hidden_size", "hidden_dim", "dim", "features", "qkv_features", "n_embd")
_HEADS = ("num_heads", "n_heads", "n_head", "heads", "h")
_WIDTH_OF_HEAD = 8
_HEADS_UNSAID = 6  # many enough that one head is not as wide as a token


def facts_inside(module: nn.Module | None) -> dict[str, Any]:
    """Return the fields "weights", "parts" and "settings" of a sketch; none for a function.

    >>> facts_inside(nn.Linear(2, 3))["settings"]
    {'in_features': 2, 'out_features': 3}
    """
    if module is None:
        return {}
    trained = [Weight(n, _shape(t)) for n, t in module.named_parameters()]
    fixed = [Weight(n, tuple(t.shape), False) for n, t in module.named_buffers() if t.is_floating_point()]
    return {
        "weights": (*trained, *fixed),
        "parts": {path: type(part).__name__ for path, part in module.named_modules() if path},
        "settings": {
            f"{path}.{name}".lstrip("."): value
            for path, part in module.named_modules()
            for name, value in _settings(part)
        },
    }


def numbers_of(part: Any) -> dict[str, int | float]:
    """Return the public attributes of an object that are plain numbers or switches."""
    public = {name: value for name, value in vars(part).items() if not name.startswith("_")}
    return {name: value for name, value in public.items() if isinstance(value, (bool, int, float))}


def likely_inputs(function: Callable[..., Any], settings: Mapping[str, Any]) -> tuple[Tensor, ...]:
    """Return [2, 3, width] for every input that a call must have, to make weights that wait for a first call.

    The width is the one that the settings name; where they leave it open, 8 for each head.
    """
    stated = [settings[name] for name in _WIDTHS if isinstance(settings.get(name), int)]
    heads = next((settings[name] for name in _HEADS if isinstance(settings.get(name), int)), _HEADS_UNSAID)
    width = stated[0] if stated else _WIDTH_OF_HEAD * heads
    parameters = inspect.signature(function).parameters.values()
    required = [p for p in parameters if p.default is p.empty and p.kind <= p.POSITIONAL_OR_KEYWORD]
    return tuple(torch.zeros(2, 3, width) for _ in required)


def _shape(parameter: Tensor) -> tuple[int, ...]:
    return () if is_lazy(parameter) else tuple(parameter.shape)


def _settings(part: nn.Module) -> Iterator[tuple[str, int | float]]:
    """Yield the numbers and switches of a module, and of the config that it holds."""
    yield from ((name, value) for name, value in numbers_of(part).items() if name != "training")
    for name in vars(part).keys() & _CONFIGS:
        held = vars(part)[name]
        inner = held if isinstance(held, dict) else getattr(held, "__dict__", {})
        for key, setting in inner.items():
            if isinstance(setting, (bool, int, float)) and not str(key).startswith("_"):
                yield f"{name}.{key}", setting
