"""Check a file: find the attention in it by signature and by behaviour, and examine each in a guarded child.

The child is started before anything here imports torch, so that both processes import it at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from softlookup.checker.guard import Child, Limits, TargetError, launch
from softlookup.checker.model_files import require_reader
from softlookup.checker.refusing import not_callable
from softlookup.file_search import mentions_attention
from softlookup.terms import Contract, Diagnosis, FileReport, NoAttentionError, Skipped, SoftlookupError

if TYPE_CHECKING:
    from softlookup.checker.calls import Failure, Sketch
    from softlookup.checker.target import FileSession

_NOT_BUILT, _NO_TIME = "could not be built", "not checked: the time is used up"  # why something was skipped
_LEAST_SECONDS = 2.0  # a child needs about one to import torch
_MODULES = "torch.nn.modules.module.Module|flax.(linen|nnx).module.Module|keras.src.layers.layer.Layer"
_SAYS_ATTENTION = ("attn", "attention", "attend", "sdpa", "lookup", "flash")


def check_file(
    path: str,
    name: str | None = None,
    *,
    contract: Contract,
    init: Mapping[str, object] | None = None,
    timeout: float = 60.0,
    device: str | None = None,
) -> FileReport:
    """Check one file, or one definition in it.

    path: a Python file, or an ONNX model; it runs only in a guarded child process
    name: ``function``, ``Class``, ``Class.method`` or an instance; None finds the attention in the file
    contract: what is declared about the targets
    init: arguments of a class's constructor
    timeout: seconds of wall time for everything the file does
    device: where the targets are called, e.g. "cuda"; None is the CPU. The verdict is made on the CPU.

    Raises: SoftlookupError when there is no such file or name, when nothing in it looks like attention, when
        a package is missing that reads such a file, or when torch does not see the device.
    """
    told = Told(contract, init or {})
    return _check(path, name, lambda _: told, (), Limits(wall_seconds=timeout, device=device or ""))


@dataclass(frozen=True)
class Told:
    """What is declared about one target: its contract, and arguments of its constructor."""

    contract: Contract = field(default_factory=Contract)
    init: Mapping[str, object] = field(default_factory=dict)


#: Name of a target -> what is declared about it.
Telling: TypeAlias = Callable[[str], Told]


def check_file_as_told(
    path: str, told_of: Telling, named: Sequence[str], *, timeout: float = 60.0, device: str | None = None
) -> FileReport:
    """Check one file in which some targets have a contract of their own.

    told_of: what is declared about a target of this name
    named: targets that are checked whether they look like attention or not; also ``Class.method``

    Raises: as ``check_file``.
    """
    return _check(path, None, told_of, named, Limits(wall_seconds=timeout, device=device or ""))


def _check(path: str, name: str | None, told_of: Telling, named: Sequence[str], limits: Limits) -> FileReport:
    require_reader(path)
    if limits.device:
        from softlookup.checker.devices import require_device

        require_device(limits.device)
    child = launch(path, limits)  # before torch is imported here
    work = _FileCheck(path, child, told_of)
    try:
        import torch

        torch.set_num_threads(1)  # tiny tensors, and the child has the other core
        diagnoses, skipped = work.one(name) if name else work.all(named)
        return FileReport(path, diagnoses, skipped, torch.__version__)
    except TargetError as problem:
        stopped = _not_run(path, name, told_of(name or "").contract, problem.reason, problem.line)
        return FileReport(path, (stopped,), (), torch.__version__)
    finally:
        work.close()


def _not_run(
    path: str, name: str | None, contract: Contract, reason: str, line: int | None = None
) -> Diagnosis:
    """The file, or the name in it, could not be run at all."""
    finding = not_callable(reason, line, fix="make it return by itself")
    return Diagnosis(name or Path(path).name, "function", path, line, contract, "not-callable", (finding,))


class _FileCheck:
    """The check of one file: a child at a time, a new one after a target has ended the last."""

    def __init__(self, path: str, child: Child, told_of: Telling) -> None:
        self.path = path
        self.child = child
        self.told_of = told_of
        self.diagnoses: list[Diagnosis] = []
        self.skipped: list[Skipped] = []

    def close(self) -> None:
        """End the child."""
        self.child.close()

    def one(self, name: str) -> tuple[tuple[Diagnosis, ...], tuple[Skipped, ...]]:
        """Examine the definition of this name."""
        from softlookup.checker.diagnose import declared, examine

        session, told = self._session(), self.told_of(name)
        self._known(name)
        return (examine(session.target(name, dict(told.init)), declared(told.contract)),), ()

    def all(self, named: Sequence[str]) -> tuple[tuple[Diagnosis, ...], tuple[Skipped, ...]]:
        """Examine everything that looks like attention and what is named, and say why the rest does not."""
        session = self._session()
        stopped = session.loading_failure
        for sketch in [*session.sketches(), *self._only_named(named)]:
            asked = sketch.name in named
            reason = (None if asked else _not_attention(sketch)) or ("" if self._renewed() else _NO_TIME)
            if reason and asked:
                self._tell_not_run(sketch, reason)
            elif reason:
                self._skip(sketch, reason)
            else:
                self._examine(sketch, asked=asked)
        if stopped:
            self._tell_where_it_stopped(stopped)
        if not self.diagnoses:
            raise _nothing_found(self.path, self.skipped)
        return tuple(self.diagnoses), tuple(self.skipped)

    def _only_named(self, names: Sequence[str]) -> list[Sketch]:
        """Return a sketch for each name that is no definition of the file: of a method that of its class."""
        found = []
        for name in names:
            try:
                found.append(replace(self._known(name), name=name))
            except TargetError as problem:  # the import stopped before it
                contract = self.told_of(name).contract
                self.diagnoses.append(_not_run(self.path, name, contract, problem.reason, problem.line))
        return [sketch for sketch in found if "." in sketch.name]

    def _known(self, name: str) -> Sketch:
        """Return the definition that a name begins with.

        Raises: SoftlookupError when the file has none; TargetError when its import stopped before it.
        """
        known = {sketch.name: sketch for sketch in self.session.sketches()}
        found = known.get(name.partition(".")[0])
        if found is not None:
            return found
        if stopped := self.session.loading_failure:
            raise _stopped(self.path, stopped)
        raise SoftlookupError(
            f"check: {self.path} defines no {name!r}.",
            expected="the name of a function, class or callable instance that the file defines",
            got=name,
            hint=f"one of {', '.join(known)}" if known else "define a function that takes q, k and v",
        )

    def _tell_where_it_stopped(self, stopped: Failure) -> None:
        """Say that the import stopped: what came after it in the file was never looked at.

        Raises: TargetError when no attention came before it and the text speaks of some.
        """
        text = Path(self.path).read_text(encoding="utf-8", errors="replace")
        if not self.diagnoses and mentions_attention(text):
            raise _stopped(self.path, stopped)
        words = f"import stopped here: {stopped.kind}: {stopped.message[:120]}"
        self.skipped.append(Skipped(Path(self.path).name, stopped.line, words))

    def _session(self) -> FileSession:
        from softlookup.checker.target import FileSession

        self.session = FileSession(self.child)
        return self.session

    def _renewed(self) -> bool:
        """Start another child when a target has ended the last one; False when no time is left."""
        if not self.child.closed:
            return True
        left = self.child.seconds_left
        if left < _LEAST_SECONDS:
            return False
        self.child = launch(self.path, replace(self.child.limits, wall_seconds=left))
        self._session()
        return True

    def _examine(self, sketch: Sketch, *, asked: bool) -> None:
        """Examine one definition; ``asked``: whatever comes of it is told."""
        from softlookup.checker.diagnose import declared, examine

        told = self.told_of(sketch.name)
        try:
            target = self.session.target(sketch.name, dict(told.init))
        except TargetError as problem:
            if asked or _says_attention(sketch):
                self._tell_not_run(sketch, problem.reason)
            else:
                self._skip(sketch, f"{_NOT_BUILT}: {problem.reason.splitlines()[0]}")
            return
        try:
            diagnosis = examine(target, declared(told.contract))
        except TargetError as problem:
            self._tell_not_run(sketch, problem.reason)
            self.child.close()
            return
        if diagnosis.verdict == "not-callable" and not (asked or _promises_attention(sketch)):
            self._skip(sketch, "takes q, k and v but does not return attention")
        else:
            self.diagnoses.append(diagnosis)

    def _tell_not_run(self, sketch: Sketch, reason: str) -> None:
        contract = self.told_of(sketch.name).contract
        self.diagnoses.append(_not_run(self.path, sketch.name, contract, reason, sketch.line))

    def _skip(self, sketch: Sketch, reason: str) -> None:
        self.skipped.append(Skipped(sketch.name, sketch.line, reason))


def _stopped(path: str, failure: Failure) -> TargetError:
    from softlookup.checker.calling import one_line

    return TargetError(f"{Path(path).name} could not be imported: {one_line(failure)}", failure.line)


def _says_attention(sketch: Sketch) -> bool:
    return any(word in sketch.name.lower() for word in _SAYS_ATTENTION)


def _promises_attention(sketch: Sketch) -> bool:
    """Say whether name and parameters both promise attention, so that not being callable is a finding."""
    from softlookup.checker.reading import read

    roles = set(read(sketch).roles.values())
    return _says_attention(sketch) and ({"q", "k", "v"} <= roles or "qkv" in roles or _is_module(sketch))


def _not_attention(sketch: Sketch) -> str | None:
    """Why a definition is not worth a call, judged by its signature; None when it is."""
    from softlookup.checker.parameter_roles import role_of
    from softlookup.checker.reading import read

    roles = set(read(sketch).roles.values())
    if {"q", "k", "v"} <= roles or "qkv" in roles:
        return None
    if _is_module(sketch):
        return None if _attends(sketch) else "a module that does not attend by itself"
    required = [p for p in sketch.parameters if p.required]
    one_input = len(required) == 1 and role_of(required[0].name) in {"x", "qkv"}
    hidden = bool(sketch.parameters) and {p.kind for p in sketch.parameters} <= {"*args", "**kwargs"}
    if _says_attention(sketch) and hidden:
        return None  # a decorator hides the signature
    if _says_attention(sketch) and sketch.kind == "function" and (len(required) in {3, 4, 5} or one_input):
        return None
    return "no queries, keys and values among its parameters"


def _is_module(sketch: Sketch) -> bool:
    return any(re.fullmatch(_MODULES, base) for base in sketch.bases)


def _attends(sketch: Sketch) -> bool:
    """Say whether a module's own code looks up: it has a softmax, and projections or a name to go with it."""
    looks_up = re.search(r"softmax|dot_product_attention|flex_attention", sketch.source, re.I)
    projects = re.search(r"\bquer|\bq_|_q\b|\bw_?q|to_q|qkv|q_proj|c_attn|in_proj", sketch.source, re.I)
    return bool(looks_up) and (_says_attention(sketch) or projects is not None)


def _nothing_found(path: str, skipped: list[Skipped]) -> NoAttentionError:
    seen = "; ".join(f"{item.name} (line {item.line}): {item.reason}" for item in skipped[:6])
    problem = NoAttentionError(
        f"check: no attention was found in {path}.",
        expected="a function that takes queries, keys and values, or a module that attends",
        got=seen or "no definitions",
        hint=f"name it: softlookup check {path}:NAME",
    )
    problem.unseen = any(item.reason.startswith((_NOT_BUILT, _NO_TIME)) for item in skipped)
    return problem
