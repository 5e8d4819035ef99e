"""Check a file as the project declares: all of it, then the targets that have a contract of their own."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from softlookup.configuration import Configuration, overlaid
from softlookup.terms import Contract, FileReport, SoftlookupError

_GLOB = set("*?[")


@dataclass(frozen=True)
class Request:
    """What the command line asks for; it wins over the configuration."""

    contract: Contract = field(default_factory=Contract)
    init: Mapping[str, object] = field(default_factory=dict)  # arguments of a class
    #: Handed to the checker as they are: timeout, device.
    settings: Mapping[str, Any] = field(default_factory=dict)


def check_as_declared(
    file: str, name: str | None, request: Request, configuration: Configuration
) -> FileReport:
    """Check one file, or one definition in it.

    A target that the configuration names is checked once more with its own contract, and that answer counts.

    Raises: SoftlookupError when there is no such file or name, or nothing in it looks like attention.
    """
    if name:
        return _check(file, name, request, configuration)
    entries = [it for it in configuration.about_file(file) if it.name != "*"]
    named = [it.name for it in entries if not _GLOB & set(it.name)]
    try:
        report = _check(file, None, request, configuration)
    except SoftlookupError:
        if not named:
            raise
        report = FileReport(file, ())  # what the configuration names may be attention all the same
    seen = [it.name for it in report.diagnoses]
    # With arguments for its constructor, what could not be built may be built now.
    unbuilt = [it.name for it in report.skipped]
    named += [it for it in seen if any(entry.names(it) for entry in entries)]
    named += [it for it in unbuilt if any(entry.init and entry.names(it) for entry in entries)]
    for target in dict.fromkeys(named):
        report = _with(report, _check(file, target, request, configuration))
    return report


def _check(file: str, name: str | None, request: Request, configuration: Configuration) -> FileReport:
    """Hand one file to the checker. The import waits until here: it is what brings torch."""
    if not Path(file).is_file():
        raise SoftlookupError(
            f"check: there is no file {file!r}.",
            expected="a Python file, FILE:NAME for one definition in it, or a folder",
            got=file,
            hint="give the path as seen from the current directory",
        )
    from softlookup.checker.files import check_file

    # torch says so when it is installed alone; nothing here needs numpy.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    declared = configuration.declared(file, name or "")  # "" is covered by "*" alone
    return check_file(
        file,
        name,
        contract=overlaid(declared.contract, request.contract),
        init={**declared.init, **request.init},
        **request.settings,
    )


def _with(report: FileReport, single: FileReport) -> FileReport:
    """Return the report of a file with the targets of another one in the place of the same ones in it."""
    new = {it.name: it for it in single.diagnoses}
    kept = tuple(new.pop(it.name, it) for it in report.diagnoses)
    names = {it.name for it in single.diagnoses}
    skipped = tuple(it for it in report.skipped if it.name not in names)
    return replace(
        report, diagnoses=kept + tuple(new.values()), skipped=skipped, torch=report.torch or single.torch
    )
