"""Functions and modules from ``torch.compile``: what was compiled runs, what it was made of is shown."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.callee import Callee, FunctionCallee, ModuleCallee, Outside, module_of
from softlookup.checker.calls import Call
from softlookup.checker.inside import facts_inside
from softlookup.checker.written_with import is_a


def recognises(target: Any) -> bool:
    """Say whether this was returned by ``torch.compile``."""
    compiled = inspect.isfunction(target) or is_a(target, "torch._dynamo")
    return compiled and not inspect.isclass(target) and _made_of(target) is not None


def callee(target: Any) -> Callee:
    """Return how it is called."""
    return CompiledCallee(target)


def outside(target: Any) -> Outside:
    """Return what was compiled."""
    original = _made_of(target)
    module = module_of(original)
    shown = original if inspect.isroutine(original) else type(original)
    called = original.forward if module is not None and module is original else original
    return Outside(shown, called=called, name=shown.__name__, **facts_inside(module))


class CompiledCallee:
    """A compiled function or module. Weights are called as in the module that was compiled."""

    differentiable = True

    def __init__(self, compiled: Any) -> None:
        original = _made_of(compiled)
        module = module_of(original)
        self._fast: Callee = FunctionCallee(compiled) if module is None else ModuleCallee(compiled, module)
        self._plain: Callee = FunctionCallee(original) if module is None else ModuleCallee(original, module)

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it; where each step is to be seen with its line, what it was compiled from."""
        return (self._plain if asked.record else self._fast).call(args, kwargs, asked, weights)

    def weights(self) -> dict[str, Tensor]:
        """Return parameters and buffers."""
        return self._plain.weights()

    def device(self) -> torch.device | None:
        """Return where its first parameter lies."""
        return self._plain.device()


def _made_of(target: Any) -> Any:
    """Return the function or module that was compiled; a compiled module has the attributes of both."""
    held = getattr(target, "__dict__", {})
    return held.get("_modules", {}).get("_orig_mod") or held.get("_torchdynamo_orig_callable")
