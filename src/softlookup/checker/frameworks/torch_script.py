"""TorchScript: functions and modules that were scripted or traced, in this process or loaded from a file."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.checker.callee import Callee, FunctionCallee, Outside, in_dtype, replaced
from softlookup.checker.calls import Call, Parameter
from softlookup.checker.inside import facts_inside
from softlookup.checker.written_with import is_a


def recognises(target: Any) -> bool:
    """Say whether this is a function or a built module of TorchScript."""
    return is_a(target, "torch.jit") and not inspect.isclass(target) and callable(target)


def callee(target: Any) -> Callee:
    """Return how it is called."""
    return ScriptedModuleCallee(target) if _is_module(target) else ScriptedCallee(target)


def outside(target: Any) -> Outside:
    """Return the function that was scripted, where it is known; parameters are those of the schema."""
    if _is_module(target):
        schema = target._c._get_method("forward").schema
        written = _class_of(target)  # None when it was traced, or loaded from a file
        facts = facts_inside(target) | {"settings": dict(_settings(target))}
        called = written and written.forward
        return Outside(written, called, _parameters(schema)[1:], name=target.original_name, **facts)
    original = _made_of(target)
    return Outside(original, original, _parameters(target.schema), name=target.name)


class ScriptedCallee(FunctionCallee):
    """A scripted function. Where each step is to be seen with its line, the function that it was made of."""

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._original = _made_of(function) or function

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it."""
        return (self._original if asked.record else self._function)(*args, **kwargs)


class ScriptedModuleCallee:
    """A scripted module, which holds its weights where ``torch.func.functional_call`` cannot reach them."""

    differentiable = True

    def __init__(self, module: Any) -> None:
        self._module = module

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it with these weights and leave it as it was.

        Raises: ValueError for a weight that it does not have.
        """
        own = self._tensors()
        wanted = replaced(in_dtype(own, asked.dtype), weights)
        given = {name: value for name, value in wanted.items() if value is not own[name]}
        # No step inside can be seen with its line, so nothing here is to be noted as one.
        unseen = torch._C.DisableTorchFunction()
        with unseen, _trains(self._module, asked.training), self._holding(given, own):
            return self._module(*args, **kwargs)

    def weights(self) -> dict[str, Tensor]:
        """Return parameters and buffers."""
        return {name: tensor.detach() for name, tensor in self._tensors().items()}

    def device(self) -> torch.device | None:
        """Return where its first parameter lies."""
        return next((tensor.device for tensor in self._module.parameters()), None)

    def _tensors(self) -> dict[str, Tensor]:
        return dict([*self._module.named_parameters(), *self._module.named_buffers()])

    @contextlib.contextmanager
    def _holding(self, given: dict[str, Tensor], own: dict[str, Tensor]) -> Iterator[None]:
        kept = {
            name: own[name].detach().clone() for name in own.keys() - given.keys()
        }  # a call may write there
        try:
            for name, value in given.items():
                self._put(name, value)
            yield
        finally:
            for name in given:
                self._put(name, own[name])
            with torch.no_grad():
                for name, value in kept.items():
                    if not torch.equal(own[name], value):
                        own[name].data.copy_(value)

    def _put(self, name: str, value: Tensor) -> None:
        path, _, last = name.rpartition(".")
        owner = functools.reduce(getattr, path.split(".") if path else (), self._module)
        owner._c.setattr(last, value)


@contextlib.contextmanager
def _trains(module: Any, training: bool) -> Iterator[None]:
    was = [(part, part.training) for part in module.modules() if hasattr(part, "training")]
    try:
        if was and module.training != training:
            module.train(training)
        yield
    finally:
        for part, mode in was:
            part.training = mode


def _is_module(target: Any) -> bool:
    return isinstance(target, nn.Module)


def _made_of(function: Any) -> Any:
    return getattr(function, "_torchdynamo_inline", None)


def _class_of(module: Any) -> Any:
    cls = getattr(getattr(module, "_concrete_type", None), "py_class", None)
    return None if cls is None or is_a(cls, "torch.jit") else cls


def _parameters(schema: Any) -> tuple[Parameter, ...]:
    return tuple(
        Parameter(
            name=one.name,
            kind="keyword-only" if one.kwarg_only else "positional",
            required=not one.has_default_value(),
            default=repr(one.default_value) if one.has_default_value() else "",
            annotation=str(one.type),
        )
        for one in schema.arguments
    )


def _settings(module: Any) -> Iterator[tuple[str, int | float]]:
    """Yield plain numbers and switches that the parts keep."""
    for path, part in module.named_modules():
        kind = getattr(part, "_concrete_type", None)
        for name in [*kind.get_attributes(), *kind.get_constants()] if kind else ():
            value = getattr(part, name, None)
            if isinstance(value, (bool, int, float)) and not name.startswith("_") and name != "training":
                yield f"{path}.{name}".lstrip("."), value
