"""JAX: functions, compiled by ``jax.jit`` or not, and classes whose instances can be called."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from softlookup.checker.callee import Callee, Outside, module_of
from softlookup.checker.jax_calls import JaxCallee
from softlookup.checker.written_with import is_a, library_of


def recognises(target: Any) -> bool:
    """Say whether its code computes with JAX, and it is no module of flax."""
    is_torch = (inspect.isclass(target) and issubclass(target, nn.Module)) or module_of(target) is not None
    own = callable(target) and not is_torch and not is_a(target, "flax")
    return own and library_of(target) == "jax"


def callee(target: Any) -> Callee:
    """Return how it is called."""
    return JaxCallee(target)


def outside(target: Any) -> Outside:
    """Return the function that was compiled, or the class with its ``__call__``."""
    made_of = inspect.unwrap(target)
    if inspect.isroutine(made_of) or inspect.isclass(made_of):
        return Outside(made_of, called=None if inspect.isclass(made_of) else made_of)
    return Outside(type(target))
