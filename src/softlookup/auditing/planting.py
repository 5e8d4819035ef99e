"""Faults for tests: a method of one instance is replaced for a block, and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def replaced(
    module: nn.Module, change: Callable[..., Any], method: str = "forward"
) -> Iterator[Callable[..., Any]]:
    """Let ``change(right, *arguments, **named)`` run instead of a method; ``right`` is what was there."""
    right = getattr(module, method)
    own = method in vars(module)

    def wrong(*arguments: Any, **named: Any) -> Any:
        return change(right, *arguments, **named)

    wrong.__signature__ = _signature(right)  # type: ignore[attr-defined]
    setattr(module, method, wrong)
    try:
        yield right
    finally:
        if own:
            setattr(module, method, right)
        else:
            delattr(module, method)


def _signature(function: Callable[..., Any]) -> Any:
    import inspect

    return inspect.signature(function)
