"""The only file that patches: functions of attention are replaced while somebody listens, or changes answers.

Every function has one replacement for good, so that compiled code is compiled at most twice: with and
without it. Whoever comes first puts the replacements in place, whoever leaves last takes them out. A name
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
from softlookup.live.followed_weights import as_plain
from softlookup.live.kept_answers import forget

_lock = threading.RLock()
_listening: list[Listener] = []  # changed as a whole: other threads may be going through it
_changing: list[Changer] = []  # the same
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


class Changer(Protocol):
    """Who may put another answer in the place of what a call found."""

    def changed(
        self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any
    ) -> tuple[Any, Door]:
        """Return what the caller gets, and the door by which others read the call as it was answered.

        What it raises reaches the caller: a request that cannot be carried out must not pass in silence.
        """

    def met_compiled(self, door: str, modules: tuple[int, ...]) -> None:
        """Hear that a call was made by compiled code, which nobody can change; may raise."""


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
        if torch.compiler.is_dynamo_compiling():  # the compiler follows these lines, and does not run them
            output = original(*args, **kwargs)
            hand_over(door.name, args, kwargs, output)
            return output
        if torch.compiler.is_compiling():  # a function of the compiler's own, say how dropout is decomposed
            return original(*args, **kwargs)
        wanting, answering = [it for it in _listening if it.wants()], tuple(_changing)
        if not (wanting or answering) or getattr(_inside, "a_call", False):
            return original(*args, **kwargs)
        _inside.a_call = True
        try:
            output, seen = original(*args, **kwargs), door
            for changer in answering:
                output, seen = changer.changed(seen, args, kwargs, output)
            for listener in wanting:
                listener.heard(seen, args, kwargs, as_plain(output))
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
    with _in_place_for(_listening, listener):
        yield


@contextmanager
def changing(changer: Changer) -> Iterator[None]:
    """Let a changer answer every call of attention in this process, in all threads, while the block runs.

    The call itself is made first. Those who came earlier change it first; listeners hear of it last.
    """
    with _in_place_for(_changing, changer):
        yield


@contextmanager
def _in_place_for(whose: list[Any], who: Any) -> Iterator[None]:
    """Keep the replacements in place as long as somebody listens or changes."""
    with _lock:
        if not _listening and not _changing:
            _in_place[:] = list(_replacements())
            for it in _in_place:
                it.put()
            _swap_names([(it.original, it.in_place) for it in _in_place if it.in_a_module])
        whose[:] = [*whose, who]
    try:
        yield
    finally:
        with _lock:
            whose[:] = [it for it in whose if it is not who]
            if not _listening and not _changing:
                taken = [it for it in reversed(_in_place) if it.take()]
                _swap_names([(it.in_place, it.original) for it in taken if it.in_a_module])
                _in_place.clear()
                forget()


def listeners() -> tuple[Listener, ...]:
    """Return who listens now."""
    return tuple(_listening)


def _heard_compiled(door: str, modules: tuple[int, ...], given: dict[str, Any], output: Tensor) -> None:
    for changer in tuple(_changing):
        changer.met_compiled(door, modules)
    for listener in listeners():
        listener.heard_compiled(door, modules, given, output)


tell(_heard_compiled)
