"""Make the weights that wait for a first call: without them there are no projections to look at."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy

from softlookup.checker.inside import likely_inputs, numbers_of

_TOKENS = 4  # also an image of 2 x 2


def with_its_weights(target: Any) -> Any:
    """Return a copy of a module whose lazy weights exist, made for the widths that its layers come to see.

    Everything else comes back as it is; so does a module that no likely inputs could be called with. The
    module itself stays lazy: what it will be called with later is not known here.

    >>> with_its_weights(nn.LazyLinear(6)).weight.shape
    torch.Size([6, 6])
    """
    if not isinstance(target, nn.Module) or not _waits(target):
        return target
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.default_generator.manual_seed(0)
        for inputs in _likely(target):
            seen = _inputs_of_layers(target, inputs)
            made = copy.deepcopy(target)  # not the one that was called: a cache may have kept something
            for path, shape in seen.items():
                made.get_submodule(path)(torch.zeros(shape))
            if not _waits(made):
                return made
    return target


def _waits(module: nn.Module) -> bool:
    return any(is_lazy(one) for one in (*module.parameters(), *module.buffers()))


def _inputs_of_layers(module: nn.Module, inputs: tuple[Tensor | None, ...]) -> dict[str, torch.Size]:
    """Return the shape of what reaches each lazy layer: path -> shape; as far as the call comes."""
    seen: dict[str, torch.Size] = {}

    def note(path: str, _: nn.Module, given: tuple[Tensor, ...]) -> None:
        seen.setdefault(path, given[0].shape)

    called = copy.deepcopy(module).eval()
    lazy = [path for path, part in called.named_modules() if isinstance(part, LazyModuleMixin)]
    for path in lazy:
        called.get_submodule(path).register_forward_pre_hook(functools.partial(note, path))
    try:
        called(*inputs)
    except Exception:  # other inputs may do
        return {}
    return seen


def _likely(module: nn.Module) -> Iterator[tuple[Tensor | None, ...]]:
    """Yield what a first call may be made with: all inputs, then None in place of the last ones."""
    lazy = [part for part in module.modules() if isinstance(part, LazyModuleMixin)]
    inputs = likely_inputs(module.forward, numbers_of(module))
    if not inputs:
        return
    # A residual path needs as many features as come out; the narrowest layer is not the fused one.
    made = [getattr(part, "out_features", getattr(part, "out_channels", 0)) for part in lazy]
    widths = dict.fromkeys(width for width in (min(made, default=0), inputs[0].shape[-1]) if width)
    for width, given in product(widths, range(len(inputs), 0, -1)):
        for shape in _shapes(lazy, width):
            yield (*[torch.zeros(shape)] * given, *[None] * (len(inputs) - given))


def _shapes(lazy: list[Any], width: int) -> tuple[tuple[int, ...], ...]:
    """Convolutions take their features from the axis before the pixels; whatever stands there fits."""
    if any(isinstance(part, nn.LazyConv2d) for part in lazy):
        return ((2, width, 2, 2),)
    tokens = (2, _TOKENS, width)
    return (
        ((2, width, _TOKENS), tokens) if any(isinstance(part, nn.LazyConv1d) for part in lazy) else (tokens,)
    )
