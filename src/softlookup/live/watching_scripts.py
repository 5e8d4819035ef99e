"""A script watched from outside: it builds its models itself, and every one of them is watched."""

from __future__ import annotations

import runpy
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from softlookup.live.around import outermost_module
from softlookup.live.door_files import Door
from softlookup.live.ear import Asked, Ear
from softlookup.live.kept_answers import forget
from softlookup.live.outlet import Outlet
from softlookup.live.showing_live import LiveView
from softlookup.live.tap import listening
from softlookup.live.trace import Trace
from softlookup.live.watching import hand_on
from softlookup.terms import SoftlookupError


@dataclass
class Watched:
    """What came of a script.

    traces: by the name of the model's class, numbered where there are several
    failed: the exception that ended the script, or None; status: with which it left by ``sys.exit``
    """

    traces: dict[str, Trace] = field(default_factory=dict)
    failed: BaseException | None = None
    status: int = 0


def watch_script(
    script: str | Path,
    args: Sequence[str],
    asked: Asked,
    *,
    save_to: str | Path | None = None,
    show: str | None = None,
) -> Watched:
    """Run a Python file as the main program, and watch every model in it that attends.

    script: the file, which runs in this process with all it does;  args: its command line
    save_to: folder, in which every model gets a trace of its own;  show: as for ``watch``, the first model

    Raises: SoftlookupError when there is no such file, ``save_to`` is in use, or nothing is called ``show``.
    """
    file = Path(script)
    if not file.is_file():
        raise SoftlookupError(
            "watch: there is no such script.",
            expected="a Python file",
            got=str(script),
            hint="watch train.py -- args",
        )
    if show is not None:
        LiveView(show)  # refuses what there is not, before anything runs
    if save_to is not None and Path(save_to).is_dir() and any(Path(save_to).iterdir()):
        raise SoftlookupError(
            "watch: something lies where the traces would go.",
            expected="an empty or new folder",
            got=str(save_to),
            hint="another --save-to",
        )
    found = Watched()
    with ExitStack() as stack:
        stack.callback(forget)
        every = _EveryModel(asked, found, stack, save_to, show)
        stack.enter_context(_as_main(file, args))
        stack.enter_context(listening(every))
        try:
            runpy.run_path(str(file), run_name="__main__")
        except SystemExit as left:
            found.status = left.code if isinstance(left.code, int) else 0 if left.code is None else 1
        except (Exception, KeyboardInterrupt) as error:
            found.failed = error
    return found


class _as_main:  # noqa: N801  (used like a function)
    """The command line and the import path that a script has when Python runs it."""

    def __init__(self, file: Path, args: Sequence[str]) -> None:
        self._wanted = [str(file), *args], str(file.resolve().parent)

    def __enter__(self) -> None:
        self._before = sys.argv, list(sys.path)
        sys.argv = self._wanted[0]
        sys.path.insert(0, self._wanted[1])

    def __exit__(self, *error: object) -> None:
        sys.argv, sys.path[:] = self._before


class _EveryModel:
    """Gives every outermost module on the stack an ear of its own."""

    def __init__(
        self, asked: Asked, found: Watched, stack: ExitStack, save_to: str | Path | None, show: str | None
    ) -> None:
        self._asked, self._found, self._stack = asked, found, stack
        self._save_to, self._show = save_to, show
        self._ears: dict[int, Ear] = {}
        self._lock = threading.Lock()

    def wants(self) -> bool:
        return True

    def heard(self, door: Door, args: Sequence[Any], kwargs: Mapping[str, Any], output: Any) -> None:
        """Pass a call to the ear of its model."""
        ear = self._ear()
        if ear is not None and ear.wants():
            ear.heard(door, args, kwargs, output)

    def heard_compiled(
        self, door: str, modules: tuple[int, ...], given: Mapping[str, Any], output: Tensor
    ) -> None:
        """The same for compiled code."""
        ear = self._ear()
        if ear is not None:
            ear.heard_compiled(door, modules, given, output)

    def _ear(self) -> Ear | None:
        model = outermost_module()
        if model is None:
            return None
        with self._lock:
            if id(model) not in self._ears:
                self._ears[id(model)] = self._new(model)
        return self._ears[id(model)]

    def _new(self, model: nn.Module) -> Ear:
        ear = Ear(model, self._asked)
        name = type(getattr(model, "_orig_mod", model)).__name__
        same = sum(it.split(" ")[0] == name for it in self._found.traces)
        name = f"{name} {same + 1}" if same else name
        self._found.traces[name] = ear.trace
        folder = None if self._save_to is None else Path(self._save_to) / name.replace(" ", "-")
        show = self._show if len(self._found.traces) == 1 else None
        if folder is not None or show is not None:
            hand_on(ear, Outlet(save_to=folder, show=show), self._stack)
        self._stack.enter_context(ear.steps.counting())
        return ear
