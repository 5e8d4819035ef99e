"""Where a step of a watched model begins and ends: with its forward, or where the user says so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from softlookup.live.trace import Trace
from softlookup.live.uncopied import Uncopied

#: Their fast path is off while a hook is on them, so their steps are told by calls alone.
_WITHOUT_HOOK = (nn.TransformerEncoderLayer, nn.MultiheadAttention)


class _Begins(Uncopied):
    """A forward pre-hook that counts."""

    def __init__(self, steps: Steps | None = None) -> None:
        self.steps = steps

    def __call__(self, module: nn.Module, args: Any) -> None:
        if self.steps is not None and not torch.compiler.is_compiling():
            self.steps.begin()


class Steps:
    """Counts steps, says which are measured, and numbers the calls of a layer in each.

    Where no forward is seen to begin, as inside compiled code, a step ends when the first layer that was
    called is called again.
    """

    def __init__(self, model: nn.Module, trace: Trace, every: int) -> None:
        self._model, self._trace, self._every = model, trace, every
        self.now = 0
        self.measured = True
        self._by_user = self._by_hook = False
        self._calls: Counter[str] = Counter()
        self._first: str | None = None
        self.at_end: list[Callable[[int], None]] = []  # told of every step that ends

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the forwards of the model while the block runs."""
        hooked = not isinstance(self._model, _WITHOUT_HOOK)
        handle = self._model.register_forward_pre_hook(_Begins(self)) if hooked else None
        try:
            yield
        finally:
            if handle is not None:
                handle.remove()
            self._trace.settle()

    def begin(self) -> None:
        """A forward of the model begins."""
        if self._in_backward() or self._by_user:
            return
        self._by_hook = True
        self._go_to(self._trace.steps)

    def end(self) -> None:
        """A step ends here; from now on nothing else ends one."""
        if not self._by_user:
            self._by_user = True
            self._trace.steps = max(1, self._trace.steps)
        self._go_to(self.now + 1)

    def number_of(self, path: str) -> int | None:
        """Count a call of a layer; None when it opens a step that is not measured."""
        if not self._by_hook and not self._by_user:
            if self._first is None:
                self._go_to(0)
                self._first = path
            elif path == self._first and self._calls[path]:
                self._go_to(self.now + 1)
        self._calls[path] += 1
        return self._calls[path] - 1 if self.now % self._every == 0 else None

    def _go_to(self, step: int) -> None:
        if self._calls:
            self._trace.settle()
            for tell in self.at_end:
                tell(self.now)
        self.now = step
        self._trace.steps = step + 1
        self._calls.clear()
        self.measured = step % self._every == 0 or not (self._by_hook or self._by_user)

    @staticmethod
    def _in_backward() -> bool:
        return torch._C._current_graph_task_id() != -1
