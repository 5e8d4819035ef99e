"""Check a file as the project declares: each target with what is declared about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
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

    What the configuration names is checked whether it looks like attention or not, with its own contract.

    Raises: SoftlookupError when there is no such file or name, or nothing in it looks like attention.
    """
    _require(file)
    # The import waits until here: it is what brings torch, which says so when it is installed without NumPy.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    own = dict.fromkeys(it.name for it in configuration.about_file(file) if it.name != "*")
    if name or not own:
        from softlookup.checker.files import check_file

        contract, init = _declared(file, name or "", request, configuration)  # "" is covered by "*" alone
        return check_file(file, name, contract=contract, init=init, **request.settings)
    from softlookup.checker.files import Told, check_file_as_told

    def told_of(target: str) -> Told:
        return Told(*_declared(file, target, request, configuration))

    named = [it for it in own if not _GLOB & set(it)]
    return check_file_as_told(file, told_of, named, **request.settings)


def _declared(
    file: str, name: str, request: Request, configuration: Configuration
) -> tuple[Contract, dict[str, object]]:
    """Return what is declared about one target: its contract, and arguments of its constructor."""
    declared = configuration.declared(file, name)
    return overlaid(declared.contract, request.contract), {**declared.init, **request.init}


def _require(file: str) -> None:
    if not Path(file).is_file():
        raise SoftlookupError(
            f"check: there is no file {file!r}.",
            expected="a Python file, FILE:NAME for one definition in it, or a folder",
            got=file,
            hint="give the path as seen from the current directory",
        )
