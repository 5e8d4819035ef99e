"""The only file that patches: functions that compute attention are replaced while somebody listens.

Every function has one replacement for good, so that compiled code is compiled at most twice: with and
without it. Whoever listens first puts the replacements in place, whoever leaves last takes them out. A name
that somebody else has replaced in the meantime is left to them: ours below theirs does nothing then.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, Protocol

import torch
from torch import Tensor

from softlookup.live.compiled_calls import hand_over, tell
from softlookup.live.door_files import Door, all_doors

_lock = threading.RLock()
_listening: list[Listener] = []  # changed as a whole: other threads may be going through it
_in_place: list[Replacement] = []
_inside = threading.local()


class Listener(Protocol):
    """Who is told of calls."""

    def wants(self) -> bool:
        """Whether the next call is looked at: asked before it, and cheap."""

    def heard(self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        """Look at a call that has returned; must not raise."""

    def heard_compiled(
        self, door: str, modules: tuple[int, ...], given: Mapping[str, Any], output: Tensor
    ) -> None:
        """The same for compiled code, where the compiler knows the ids of the modules around a call."""


class Replacement:
    """What is called at a place now, whoever put it there, and what stands in for it meanwhile."""

    def __init__(self, place: str, door: Door) -> None:
        self.place, self.door = place, door
        module, _, attributes = place.partition(":")
        *path, self.attribute = attributes.split(".")
        self.owner: Any = functools.reduce(getattr, path, sys.modules[module])
        self.original: Callable[..., Any] = getattr(self.owner, self.attribute)
        self.was_own = self.attribute in vars(self.owner)
        self.in_place = _standing_for(self.original, door)

    @property
    def in_a_module(self) -> bool:
        """Whether others may have imported it by its name."""
        return isinstance(self.owner, ModuleType)

    def put(self) -> None:
        """Put it in place."""
        setattr(self.owner, self.attribute, self.in_place)

    def take(self) -> bool:
        """Take it out, unless somebody replaced it since; say whether it was."""
        if vars(self.owner).get(self.attribute) is not self.in_place:
            return False
        if self.was_own:
            setattr(self.owner, self.attribute, self.original)
        else:
            delattr(self.owner, self.attribute)
        return True


@functools.cache  # one for good, so that compiled code is compiled once with it
def _standing_for(original: Callable[..., Any], door: Door) -> Callable[..., Any]:
    """Return a function that does what the original does, bit for bit, and tells who listens."""

    @functools.wraps(original, updated=())
    def softlookup_listens(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            output = original(*args, **kwargs)
            hand_over(door.name, args, kwargs, output)
            return output
        wanting = [it for it in _listening if it.wants()]
        if not wanting or getattr(_inside, "a_call", False):
            return original(*args, **kwargs)
        _inside.a_call = True
        try:
            output = original(*args, **kwargs)
            for listener in wanting:
                listener.heard(door, args, kwargs, output)
        finally:
            _inside.a_call = False
        return output

    for name, value in vars(original).items() if hasattr(original, "__dict__") else ():
        setattr(softlookup_listens, name, value)
    return softlookup_listens


def _swap_names(pairs: list[tuple[Any, Any]]) -> None:
    """Replace functions in every module that has bound them under whatever name, except in torch's own."""
    new = {id(old): it for old, it in pairs}
    for name, module in list(sys.modules.items()):
        if (
            name == "torch"
            or name.startswith(("torch.", "softlookup."))
            or not isinstance(module, ModuleType)
        ):
            continue
        names = vars(module)
        for key in [key for key, value in list(names.items()) if id(value) in new]:
            names[key] = new[id(names[key])]


def _replacements() -> Iterator[Replacement]:
    for door in all_doors():
        for place in door.places:
            module = place.partition(":")[0]
            if module.startswith("softlookup."):
                import_module(module)
            if module in sys.modules:
                yield Replacement(place, door)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell a listener of every call of attention in this process, in all threads, while the block runs."""
    with _lock:
        if not _listening:
            _in_place[:] = list(_replacements())
            for it in _in_place:
                it.put()
            _swap_names([(it.original, it.in_place) for it in _in_place if it.in_a_module])
        _listening[:] = [*_listening, listener]
    try:
        yield
    finally:
        with _lock:
            _listening[:] = [it for it in _listening if it is not listener]
            if not _listening:
                taken = [it for it in reversed(_in_place) if it.take()]
                _swap_names([(it.in_place, it.original) for it in taken if it.in_a_module])
                _in_place.clear()


def listeners() -> tuple[Listener, ...]:
    """Return who listens now."""
    return tuple(_listening)


def _heard_compiled(door: str, modules: tuple[int, ...], given: dict[str, Any], output: Tensor) -> None:
    for listener in listeners():
        listener.heard_compiled(door, modules, given, output)


tell(_heard_compiled)
