"""What stands behind a target: a plain function, or a module whose weights are chosen for every call.

A module with projections is a function of q, k and v once its weights are a table: nothing of it is changed
for longer than one call.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from softlookup.checker.calls import Call, Parameter, Weight
from softlookup.checker.keeping import Kept
from softlookup.checker.written_with import is_a


class Callee(Protocol):
    """Something that is called with tensors of torch, whatever it is written in."""

    differentiable: bool  # gradients pass through a call

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Make one call under the conditions that ``asked`` sets; ``weights`` are those of this call."""

    def weights(self) -> dict[str, Tensor]:
        """Return the trained and fixed tensors by name; empty for a function."""

    def device(self) -> torch.device | None:
        """Return where tensors have to be; None when that is of no matter."""


@dataclass(frozen=True)
class Outside:
    """What is to be seen of a target without calling it."""

    shown: Any  # what holds its docstring, its source and its line; None: nothing does
    called: Callable[..., Any] | None = None  # the Python function that a call runs; None: the usual one
    parameters: tuple[Parameter, ...] | None = None  # None: those of that function
    weights: tuple[Weight, ...] = ()
    parts: dict[str, str] = field(default_factory=dict)
    settings: dict[str, int | float] = field(default_factory=dict)
    file: str = ""  # "": where ``shown`` was written
    name: str = ""
    doc: str = ""


class FunctionCallee:
    """A function without weights of its own."""

    differentiable = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it."""
        return self._function(*args, **kwargs)

    def weights(self) -> dict[str, Tensor]:
        """It has none."""
        return {}

    def device(self) -> torch.device | None:
        """It takes what comes."""
        return None


class PlacedCallee:
    """A target that is called on a device; one that is bound to another one stays where it is."""

    def __init__(self, callee: Callee, device: torch.device) -> None:
        self.differentiable = callee.differentiable
        self.call = callee.call
        self.weights = callee.weights
        self._own = callee.device
        self._given = device

    def device(self) -> torch.device:
        """Return where tensors have to be."""
        return self._own() or self._given


def placed(callee: Callee, target: Any, device: str) -> PlacedCallee:
    """Move a target to a device, and hand it its tensors there.

    Raises: ValueError when it is bound to another device, as arrays of other frameworks are to the CPU.
    """
    module, wanted = module_of(target), torch.device(device)
    if module is not None:
        module.to(wanted)
    moved = PlacedCallee(callee, wanted)
    if moved.device().type != wanted.type:
        raise ValueError(f"it can only be called on {moved.device().type}, and {device} was asked for")
    return moved


class _Holder(nn.Module):
    """A module around a call, so that a bound method too can be given other weights.

    earlier: arguments of calls that are made first, under the same weights: what they left behind is used
    settles: the module goes into evaluation here, where it makes what it needs of the weights of the call
    """

    def __init__(self, function: Callable[..., Any], module: nn.Module) -> None:
        super().__init__()
        self.held = module
        self._function = function
        self.earlier: tuple[Any, ...] = ()
        self.settles = False

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        if self.settles:
            self.held.eval()
        for args_before, kwargs_before in self.earlier:
            self._function(*args_before, **kwargs_before)
        return self._function(*args, **kwargs)


class ModuleCallee:
    """An ``nn.Module``, or a method of one.

    One that rewrites its weights on its way to evaluation is given those of a call before that, and shows
    those of training. What it makes of them is mostly hidden from autograd.
    """

    def __init__(self, function: Callable[..., Any], module: nn.Module) -> None:
        self._holder = _Holder(function, module)
        self._module = module
        self._kept: Kept | None = None
        self._rewrites = _rewrites_weights(module)
        self.differentiable = not self._rewrites

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it with these weights, as if it had always had them; leave it as it was."""
        lazy = any(is_lazy(one) for one in self._module.parameters())
        kept = None if lazy else self._kept or Kept(self._module)
        self._kept = kept
        self._holder.earlier = asked.earlier
        try:
            replaced = {**self._cast(asked.dtype), **weights}
            self._holder.settles = self._rewrites and bool(replaced) and not asked.training
            with _arranged(self._module, asked, training=asked.training or self._holder.settles):
                if not replaced:
                    return self._holder(*args, **kwargs)
                named = {f"held.{name}": value for name, value in replaced.items()}
                return torch.func.functional_call(self._holder, named, args, kwargs)
        finally:
            if kept is not None:
                kept.restore(thoroughly=self._rewrites)

    def weights(self) -> dict[str, Tensor]:
        """Return parameters and buffers."""
        return _in_training(self._module) if self._rewrites else _tensors_of(self._module)

    def device(self) -> torch.device | None:
        """Return where its first parameter lies."""
        first = next((one for one in self._module.parameters() if not is_lazy(one)), None)
        return None if first is None else first.device

    def _cast(self, dtype: str) -> dict[str, Tensor]:
        return in_dtype(self.weights(), dtype) if dtype else {}


def _tensors_of(module: nn.Module) -> dict[str, Tensor]:
    found = [*module.named_parameters(), *module.named_buffers()]
    return {name: tensor.detach() for name, tensor in found if not is_lazy(tensor)}


def _in_training(module: nn.Module) -> dict[str, Tensor]:
    """Return copies of the weights that a module has in training, and leave it as it was."""
    kept = Kept(module)
    try:
        module.train()
        return {name: tensor.clone() for name, tensor in _tensors_of(module).items()}
    finally:
        kept.restore(thoroughly=True)


def _rewrites_weights(module: nn.Module) -> bool:
    """Say whether the weights of a module are others in training and in evaluation."""
    usual = nn.Module.train, nn.Module.eval
    if all((type(part).train, type(part).eval) == usual for part in module.modules()):
        return False
    kept = Kept(module)
    try:
        before = _in_training(module)
        module.eval()
        after = _tensors_of(module)
        return before.keys() == after.keys() and any(not torch.equal(before[n], after[n]) for n in before)
    except Exception:  # it has but one mode
        return False
    finally:
        kept.restore(thoroughly=True)


def in_dtype(weights: dict[str, Tensor], dtype: str) -> dict[str, Tensor]:
    """Return the weights with every floating one in this dtype; "" leaves them."""
    wanted = getattr(torch, dtype) if dtype else None
    return {name: t.to(wanted) if wanted and t.is_floating_point() else t for name, t in weights.items()}


def replaced(own: dict[str, Tensor], given: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a callee's own weights but for those that are given.

    Raises: ValueError for a weight that it does not have.
    """
    unknown = sorted(given.keys() - own.keys())
    if unknown:
        raise ValueError(f"no weight is called {', '.join(unknown)}; there are {', '.join(own) or 'none'}")
    return {**own, **given}


def module_of(function: Any) -> nn.Module | None:
    """Return the module that a callable is, or is a method of; None for everything else.

    A layer of Keras is a module too when it runs on torch, but is called in its own way.
    """
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", function)
    return owner if isinstance(owner, nn.Module) and not is_a(owner, "keras") else None


@contextlib.contextmanager
def _arranged(module: nn.Module, asked: Call, *, training: bool) -> Iterator[None]:
    """Set mode, settings and bypassed parts for one call."""
    was_training = [(part, part.training) for part in module.modules()]
    replaced: list[tuple[Any, str, Any]] = []
    try:
        if training != module.training:
            module.train(training)
        for path, value in asked.settings.items():
            owner, name = _owner(module, path)
            replaced.append((owner, name, getattr(owner, name)))
            setattr(owner, name, value)
        for path in asked.bypassed:
            owner, name = _owner(module, path)
            replaced.append((owner, name, getattr(owner, name)))
            setattr(owner, name, nn.Identity())
        yield
    finally:
        for owner, name, value in reversed(replaced):
            setattr(owner, name, value)
        for part, mode in was_training:
            part.training = mode


def _owner(module: nn.Module, path: str) -> tuple[Any, str]:
    parent, _, name = path.rpartition(".")
    owner: Any = module
    for step in parent.split(".") if parent else ():
        owner = getattr(owner, step)
    return owner, name
