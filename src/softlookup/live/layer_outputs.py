"""What goes into and comes out of every layer of a model, in the order in which the layers finish.

The only file that registers forward hooks. They look and return nothing, so the answers stay what they are;
they are gone when the block ends, also by an exception.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class LayerOutput:
    """One call of one module.

    path: as in ``named_modules``, "" for the model itself;  forward: which forward of the model, from 0
    number: calls of the same module before it in this forward
    given: the first floating tensor among its arguments;  output: the first one among what it returned
    """

    path: str
    forward: int
    number: int
    given: Tensor | None
    output: Tensor | None


@dataclass(eq=False)
class LayerOutputs:
    """The calls, in the order in which they finished: a layer comes after the layers inside it."""

    calls: list[LayerOutput] = field(default_factory=list)
    _forward: int = -1
    _numbers: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _depth: int = 0

    def _begin(self) -> None:
        self._depth += 1
        if self._depth == 1:  # a model that calls itself is still in the same forward
            self._forward += 1
            self._numbers.clear()

    def _end(self) -> None:
        self._depth -= 1

    def _add(self, path: str, given: Tensor | None, output: Tensor | None) -> None:
        self.calls.append(LayerOutput(path, max(self._forward, 0), self._numbers[path], given, output))
        self._numbers[path] += 1


@contextmanager
def recorded_layers(model: nn.Module, *, keep_graph: bool = False) -> Iterator[LayerOutputs]:
    """Record what goes into and comes out of every named module of a model while the block runs.

    model: any module. A module that is used under several names is recorded under the first.
    keep_graph: hand out the tensors themselves, through which gradients flow; else copies, as later layers
    may change a tensor in place

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> import torch
    >>> with recorded_layers(model) as seen:
    ...     _ = model(torch.zeros(1, 2))
    >>> [call.path for call in seen.calls]
    ['0', '1', '']
    """
    seen = LayerOutputs()
    with ExitStack() as hooks:
        begin = model.register_forward_pre_hook(lambda module, arguments: seen._begin())
        hooks.callback(begin.remove)
        for path, module in model.named_modules():
            handle = module.register_forward_hook(_looking(seen, path, keep_graph), with_kwargs=True)
            hooks.callback(handle.remove)
        end = model.register_forward_hook(lambda module, arguments, output: seen._end(), always_call=True)
        hooks.callback(end.remove)
        yield seen


def _looking(seen: LayerOutputs, path: str, keep_graph: bool) -> Callable[..., None]:
    def look(module: nn.Module, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        given, returned = _first_numbers((arguments, named)), _first_numbers(output)
        if not keep_graph:
            given = None if given is None else given.detach().clone()
            returned = None if returned is None else returned.detach().clone()
        seen._add(path, given, returned)

    return look


def _first_numbers(values: Any) -> Tensor | None:
    """Return the first floating tensor in tensors, sequences and mappings."""
    if isinstance(values, Tensor):
        return values if values.is_floating_point() else None
    inside = values.values() if isinstance(values, Mapping) else values
    if isinstance(values, (Mapping, tuple, list)):
        return next((found for it in inside if (found := _first_numbers(it)) is not None), None)
    return None
