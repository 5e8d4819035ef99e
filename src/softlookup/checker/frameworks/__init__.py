"""One file a framework, found by its name: what is no plain PyTorch, and how it is called with tensors.

A framework is never imported to recognise it: the names of classes and of what a file imports are enough.
"""

from __future__ import annotations

import functools
import inspect
import pkgutil
from collections.abc import Callable
from importlib import import_module
from typing import Any, Protocol, cast

from softlookup.checker.callee import Callee, FunctionCallee, ModuleCallee, Outside, module_of


class Framework(Protocol):
    """What each file here defines."""

    def recognises(self, target: Any) -> bool:
        """Say whether a callable, an instance or a class is of this framework."""

    def callee(self, target: Any) -> Callee:
        """Return how it is called."""

    def outside(self, target: Any) -> Outside:
        """Return what is to be seen of it without calling it."""


def framework_of(target: Any) -> Framework | None:
    """Return the framework that a target is written for; None for PyTorch, and where nothing says so."""
    return next((framework for framework in _frameworks() if framework.recognises(target)), None)


def callee_of(function: Callable[..., Any]) -> Callee:
    """Return how this is called.

    >>> callee_of(lambda q, k, v: v).differentiable
    True
    """
    framework = framework_of(function)
    if framework is not None and not inspect.isclass(function):
        return framework.callee(function)
    module = module_of(function)
    return FunctionCallee(function) if module is None else ModuleCallee(function, module)


@functools.cache
def _frameworks() -> list[Framework]:
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return [cast(Framework, import_module(f"{__name__}.{name}")) for name in names]
