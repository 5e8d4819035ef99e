"""Check a file: find the attention in it by signature and by behaviour, and examine each in a guarded child.

The child is started before anything here imports torch, so that both processes import it at the same time.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from softlookup.checker.guard import Limits, TargetError, launch
from softlookup.terms import Contract, Diagnosis, FileReport, Finding, Skipped, SoftlookupError

if TYPE_CHECKING:
    from softlookup.checker.calls import Sketch
    from softlookup.checker.target import FileSession

_SAYS_ATTENTION = ("attn", "attention", "attend", "sdpa", "lookup", "flash")


def check_file(
    path: str,
    name: str | None = None,
    *,
    contract: Contract,
    init: dict[str, object] | None = None,
    timeout: float = 60.0,
) -> FileReport:
    """Check one file, or one definition in it.

    path: a Python file; it runs only in a guarded child process
    name: ``function``, ``Class``, ``Class.method`` or an instance; None finds the attention in the file
    contract: what is declared about the targets
    init: arguments of a class's constructor
    timeout: seconds of wall time for everything the file does

    Raises: SoftlookupError when there is no such file or name, or nothing in it looks like attention.
    """
    child = launch(path, Limits(wall_seconds=timeout))
    try:
        import torch

        from softlookup.checker.target import FileSession

        torch.set_num_threads(1)  # tiny tensors, and the child has the other core
        session = FileSession(child)
        report = _examine_all(session, path, name, contract, init or {})
        return FileReport(path, report[0], report[1], torch.__version__)
    except TargetError as problem:
        return FileReport(path, (_not_run(path, name, contract, problem.reason),), (), _torch_version())
    finally:
        child.close()


def _torch_version() -> str:
    import torch

    return str(torch.__version__)


def _not_run(path: str, name: str | None, contract: Contract, reason: str) -> Diagnosis:
    """The file or the name in it could not be run at all."""
    finding = Finding(
        "SL001", "not-callable", reason, fix="make the file import and the call return by itself"
    )
    return Diagnosis(name or Path(path).name, "function", path, None, contract, "not-callable", (finding,))


def _examine_all(
    session: FileSession, path: str, name: str | None, contract: Contract, init: dict[str, Any]
) -> tuple[tuple[Diagnosis, ...], tuple[Skipped, ...]]:
    from softlookup.checker.diagnose import declared, examine, weights_refused

    contract = declared(contract)
    sketches = session.sketches()
    if name is not None:
        known = [sketch.name for sketch in sketches]
        if name.partition(".")[0] not in known:
            raise SoftlookupError(
                f"check: {path} defines no {name!r}.",
                expected="the name of a function, class or instance that the file defines",
                got=name,
                hint=f"one of {', '.join(known)}" if known else "define a function that takes q, k and v",
            )
        return (examine(session.target(name, init), contract),), ()
    diagnoses: list[Diagnosis] = []
    skipped: list[Skipped] = []
    for sketch in sketches:
        reason = _not_attention(sketch)
        if reason is None:
            try:
                target = session.target(
                    sketch.name, {**_constructor_arguments(sketch), **init} if sketch.kind == "class" else {}
                )
            except TargetError as problem:
                reason = f"could not be built ({problem.reason}); name it and give --init"
            else:
                reason = weights_refused(target.sketch)
        if reason is not None:
            skipped.append(Skipped(sketch.name, sketch.line, reason))
            continue
        diagnosis = examine(target, contract)
        if diagnosis.verdict == "not-callable" and not _promises_attention(sketch):
            skipped.append(
                Skipped(sketch.name, sketch.line, "takes q, k and v but does not return attention")
            )
        else:
            diagnoses.append(diagnosis)
    if session.loading_failure and diagnoses:
        failure = session.loading_failure
        skipped.append(
            Skipped(
                Path(path).name, failure.line, f"import stopped here: {failure.kind}: {failure.message[:120]}"
            )
        )
    if not diagnoses:
        raise _nothing_found(path, skipped)
    return tuple(diagnoses), tuple(skipped)


def _says_attention(sketch: Sketch) -> bool:
    return any(word in sketch.name.lower() for word in _SAYS_ATTENTION)


def _promises_attention(sketch: Sketch) -> bool:
    """Say whether name and parameters both promise attention, so that not being callable is a finding."""
    from softlookup.checker.reading import read

    roles = set(read(sketch).roles.values())
    return _says_attention(sketch) and ({"q", "k", "v"} <= roles or "qkv" in roles)


def _not_attention(sketch: Sketch) -> str | None:
    """Why a definition is not worth a call, judged by its signature; None when it is."""
    from softlookup.checker.reading import read, role_of

    roles = set(read(sketch).roles.values())
    if {"q", "k", "v"} <= roles or "qkv" in roles:
        return None
    required = [p for p in sketch.parameters if p.required]
    one_input = len(required) == 1 and role_of(required[0].name) in {"x", "qkv"}
    hidden = bool(sketch.parameters) and {p.kind for p in sketch.parameters} <= {"*args", "**kwargs"}
    if _says_attention(sketch) and hidden:
        return None  # a decorator hides the signature
    if _says_attention(sketch) and sketch.kind == "function" and (len(required) in {3, 4, 5} or one_input):
        return None
    return "no queries, keys and values among its parameters"


def _constructor_arguments(sketch: Sketch) -> dict[str, Any]:
    """Values for a weightless class's required constructor arguments, by name."""
    from softlookup.checker.reading import constructor_value

    values = {p.name: constructor_value(p.name) for p in sketch.init_parameters if p.required}
    return {name: value for name, value in values.items() if value is not None}


def _nothing_found(path: str, skipped: list[Skipped]) -> SoftlookupError:
    seen = "; ".join(f"{item.name} (line {item.line}): {item.reason}" for item in skipped[:6])
    return SoftlookupError(
        f"check: no attention was found in {path}.",
        expected="a function or weightless class that takes queries, keys and values",
        got=seen or "no definitions",
        hint=f"name it: softlookup check {path}:NAME",
    )
