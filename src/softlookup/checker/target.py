"""Targets: a callable of this process, or a name in a file that runs in a guarded child.

What a child sends back are tensors and facts; the verdict is made from them here. A file can therefore not
print or patch itself a pass. The guard is a seat belt and not a sandbox against malice.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softlookup.checker import wire
from softlookup.checker.callee import module_of
from softlookup.checker.calling import make_call, one_line
from softlookup.checker.calls import Answer, Call, Failure, Sketch, Target
from softlookup.checker.frameworks import callee_of, framework_of
from softlookup.checker.guard import Child, Limits, TargetError, launch
from softlookup.checker.keeping import Kept
from softlookup.checker.lazy_weights import with_its_weights
from softlookup.checker.sketching import code_of, sketch_of


def open_file(path: str | os.PathLike[str], *, timeout: float = 60.0) -> FileSession:
    """Start a guarded child that loads ``path``; return at once, while it imports torch.

    Raises: TargetError when there is no such file.

    >>> with open_file("attention.py") as session:  # doctest: +SKIP
    ...     answers = session.target("attend").perform([Call((q, k, v))])
    """
    return FileSession(launch(path, Limits(wall_seconds=timeout)))


class FileSession:
    """One file in its child: what it defines, and targets that run there."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._opened: tuple[list[Sketch], Failure | None] | None = None

    def __enter__(self) -> FileSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child and all it started, and remove its folder."""
        self._child.close()

    @property
    def loading_failure(self) -> Failure | None:
        """What stopped the file while it was imported, when it had defined something callable before."""
        return self._open()[1]

    def sketches(self) -> list[Sketch]:
        """Return the functions, classes and callable instances that the file defines, in its order.

        Raises: TargetError when the file could not be imported and defined nothing before.
        """
        sketches, failure = self._open()
        if failure and not sketches:
            reason = f"{self._child.file.name} could not be imported: {one_line(failure)}"
            raise TargetError(reason, failure.line)
        return list(sketches)

    def target(self, name: str, init: dict[str, Any] | None = None) -> FileTarget:
        """Return ``function``, ``instance``, ``Class`` or ``Class.method``; a class is built with ``init``.

        Raises: TargetError when there is no such name or its constructor fails.
        """
        self.sketches()
        tensors = wire.Tensors()
        written = wire.write_value(init, tensors)
        self._child.asked = f"build {name}" if init else f"look up {name}"
        self._child.send({"do": "pick", "name": name, "init": written}, tensors.pack())
        answer, _ = self._child.receive()
        with _readable(self._child):
            failure = wire.read_failure(answer["failure"])
            if failure is None:
                return FileTarget(self._child, answer["target"], wire.read_sketch(answer["sketch"]))
        if failure.kind == "CannotConstructError":
            raise TargetError(failure.message)
        stopped = self.loading_failure
        note = f" (its import had stopped: {one_line(stopped)})" if stopped else ""
        raise TargetError(f"{self._child.file.name}: no target {name}: {one_line(failure)}{note}")

    def _open(self) -> tuple[list[Sketch], Failure | None]:
        if self._opened is None:
            answer, _ = self._child.receive()
            with _readable(self._child):
                sketches = [wire.read_sketch(item) for item in answer["sketches"]]
                self._opened = sketches, wire.read_failure(answer["failure"])
        return self._opened


class FileTarget:
    """A callable in a guarded child."""

    def __init__(self, child: Child, number: int, sketch: Sketch) -> None:
        self._child = child
        self._number = number
        self._sketch = sketch

    @property
    def sketch(self) -> Sketch:
        """The callable seen from outside."""
        return self._sketch

    def perform(self, calls: list[Call]) -> list[Answer]:
        """Make the calls in order, one answer each.

        Raises: TargetError when the process ends or the time is over before the last answer.
        """
        written, tensors = wire.write_calls(calls)
        self._child.asked = f"call {self._sketch.name}"
        self._child.send({"do": "perform", "target": self._number, "calls": written}, tensors)
        answers = []
        for number in range(1, len(calls) + 1):
            self._child.asked = f"call {self._sketch.name} ({number} of {len(calls)})"
            data, block = self._child.receive()
            with _readable(self._child):
                answers.append(wire.read_answer(data, block))
        return answers

    def own_weights(self) -> dict[str, Tensor]:
        """Return the parameters and buffers of a module as they are; empty for everything else.

        Raises: TargetError when the process ends or the time is over.
        """
        self._child.asked = f"read the weights of {self._sketch.name}"
        self._child.send({"do": "weights", "target": self._number})
        data, block = self._child.receive()
        with _readable(self._child):
            found: dict[str, Tensor] = wire.read_value(data["weights"], wire.unpack_tensors(block))
        return found


class LocalTarget:
    """A callable or a module of this process. It and the random states are left as they were.

    Whatever the target raises is an answer, except that Ctrl-C still interrupts.
    """

    def __init__(self, function: Any, name: str = "") -> None:
        if not callable(function) and framework_of(function) is None:
            raise TargetError(f"expected a callable or a module, got a {type(function).__name__}")
        function = with_its_weights(function)
        self._callee = callee_of(function)
        self._module = module_of(function)
        self._sketch = sketch_of(function, name)
        code = code_of(function)
        self._file = code.co_filename if code else ""

    @property
    def sketch(self) -> Sketch:
        """The callable seen from outside."""
        return self._sketch

    def perform(self, calls: list[Call]) -> list[Answer]:
        """Make the calls in order, one answer each, the module in evaluation mode."""
        kept = Kept(self._module) if self._module is not None else None
        answers = []
        try:
            with _random_states_kept():
                for call in calls:
                    answer = make_call(self._callee, call, self._file)
                    if answer.failure and answer.failure.kind == "KeyboardInterrupt":
                        raise KeyboardInterrupt
                    answers.append(answer)
        finally:
            if kept is not None:
                kept.restore(thoroughly=True)
        return answers

    def own_weights(self) -> dict[str, Tensor]:
        """Return the parameters and buffers of a module as they are; empty for everything else."""
        return self._callee.weights()


@contextlib.contextmanager
def _random_states_kept() -> Iterator[None]:
    used = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    devices = range(torch.cuda.device_count()) if used else []
    state = random.getstate()
    with torch.random.fork_rng(devices):
        yield
    random.setstate(state)


@contextlib.contextmanager
def _readable(child: Child) -> Iterator[None]:
    """Turn whatever a damaged answer raises into one line."""
    try:
        yield
    except Exception as error:
        child.close()
        raise TargetError(f"{child.file.name}: the answer of its process cannot be read ({error})") from None


_CHECKED: type[Target] = FileTarget  # both are targets, says the type checker
_CHECKED = LocalTarget
