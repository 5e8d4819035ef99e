"""Read ``[tool.softlookup]`` of the nearest pyproject.toml: what a project says once for all runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from softlookup.file_search import Exclusion
from softlookup.report.forms import FORMS
from softlookup.selection import Selection, known_words
from softlookup.terms import PROMISES, Contract, SoftlookupError, refuse_unknown

_KEYS = ("select", "ignore", "exclude", "timeout", "format", "contracts")


@dataclass(frozen=True)
class Declared:
    """What a project declares about some targets."""

    file: str  # glob for the file, as seen from the folder of pyproject.toml
    name: str  # glob for the target in it; "*" is all of them
    contract: Contract
    init: Mapping[str, object] = field(default_factory=dict)  # arguments of a class

    def names(self, target: str) -> bool:
        """Say whether this is about a target of this name, in a file that it is about."""
        return fnmatchcase(target, self.name)


@dataclass(frozen=True)
class Configuration:
    """What ``[tool.softlookup]`` says; nothing when there is none."""

    root: str = ""  # the folder of pyproject.toml
    selection: Selection = field(default_factory=Selection)
    exclusion: Exclusion = field(default_factory=Exclusion)
    timeout: float | None = None
    form: str | None = None
    contracts: tuple[Declared, ...] = ()

    def about_file(self, file: str) -> list[Declared]:
        """Return what is declared about any target of this file, in the order of the configuration."""
        path = self._seen(file)
        return [it for it in self.contracts if fnmatchcase(path, it.file)]

    def declared(self, file: str, name: str) -> Declared:
        """Return what is declared about one target: every entry that names it, the later on top."""
        found = Declared(file, name, Contract())
        for entry in self.about_file(file):
            if entry.names(name):
                contract = overlaid(found.contract, entry.contract)
                found = replace(found, contract=contract, init={**found.init, **entry.init})
        return found

    def _seen(self, file: str) -> str:
        return Path(os.path.relpath(file, self.root or ".")).as_posix()


def overlaid(below: Contract, above: Contract) -> Contract:
    """Return one contract with what another declares on top of it."""
    given = {name: getattr(above, name) for name in above.declared}
    return replace(below, **given, declared=below.declared | above.declared)


def nearest(paths: Iterable[str]) -> Configuration:
    """Return the configuration of the paths: of the first pyproject.toml upwards that has one for us.

    Raises: SoftlookupError when that file cannot be read, or says something we do not know.
    """
    folders = [os.path.abspath(path if os.path.isdir(path) else os.path.dirname(path)) for path in paths]
    start = Path(os.path.commonpath(folders)) if folders else Path.cwd()
    for folder in (start, *start.parents):
        file = folder / "pyproject.toml"
        if file.is_file():
            table = _table(file)
            if table is not None:
                return _configuration(table, folder)
    return Configuration()


def _table(file: Path) -> dict[str, Any] | None:
    """Return our table of a pyproject.toml, or None when it has none."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        with open(file, "rb") as opened:
            tools = tomllib.load(opened).get("tool", {})
    except (tomllib.TOMLDecodeError, OSError) as problem:
        raise SoftlookupError(
            f"configuration: {file} could not be read.", expected="a TOML file", got=str(problem)
        ) from None
    table: dict[str, Any] | None = tools.get("softlookup")
    return table


def _configuration(table: dict[str, Any], folder: Path) -> Configuration:
    where = "[tool.softlookup]"
    refuse_unknown(table, _KEYS, f"configuration: {where}")
    words = {key: known_words(_texts(table, key), f"{where} {key}") for key in ("select", "ignore")}
    timeout, form = table.get("timeout"), table.get("format")
    if timeout is not None:
        timeout = _typed(timeout, float, f"{where} timeout")
        if timeout <= 0:
            raise _wrong(f"{where} timeout", "seconds, more than 0", timeout)
    if form is not None and form not in FORMS:
        raise _wrong(f"{where} format", f"one of {', '.join(FORMS)}", form)
    contracts = table.get("contracts", {})
    if not isinstance(contracts, dict):
        raise _wrong(
            f"{where} contracts", 'tables such as [tool.softlookup.contracts."src/model.py:Name"]', contracts
        )
    return Configuration(
        str(folder),
        Selection(**words),
        Exclusion(tuple(_texts(table, "exclude")), str(folder)),
        timeout,
        form,
        tuple(_declared(target, entry) for target, entry in contracts.items()),
    )


def _declared(target: str, entry: Any) -> Declared:
    """Read one table of ``contracts``; its key is FILE, or FILE:NAME, both with globs."""
    where = f'[tool.softlookup.contracts."{target}"]'
    if not isinstance(entry, dict):
        raise _wrong(where, "a table with fields of a contract", entry)
    kinds = _contract_fields()
    refuse_unknown(entry, (*kinds, "init"), f"configuration: {where}")
    given = {
        name: _typed(value, kinds[name], f"{where} {name}") for name, value in entry.items() if name != "init"
    }
    init = entry.get("init", {})
    if not isinstance(init, dict):
        raise _wrong(f"{where} init", "a table such as {d_model = 32, num_heads = 4}", init)
    file, _, name = target.partition(":")
    return Declared(file, name or "*", Contract(**given, declared=frozenset(given)), init)


@cache
def _contract_fields() -> dict[str, Any]:
    """Return the fields of a contract that may be declared, with the type of each."""
    kinds = get_type_hints(Contract)
    return {name: kinds[name] for name in PROMISES}


def _typed(value: Any, kind: Any, where: str) -> Any:
    """Return a value that fits a type of the contract, e.g. ``float | None`` or a ``Literal`` or None."""
    options = [it for it in get_args(kind) or (kind,) if it is not type(None)]
    choices = [it for option in options if get_origin(option) is Literal for it in get_args(option)]
    if choices:
        if value in choices:
            return value
        raise _wrong(where, f"one of {', '.join(choices)}", value)
    (plain,) = options
    if type(value) is plain:  # True is no number here
        return value
    if plain is float and type(value) is int:
        return float(value)
    words = {float: "a number", int: "a whole number", bool: "true or false"}
    raise _wrong(where, words.get(plain, "a text"), value)


def _texts(table: dict[str, Any], key: str) -> list[str]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(f"[tool.softlookup] {key}", "a list of texts", value)
    return value


def _wrong(where: str, expected: str, got: Any) -> SoftlookupError:
    return SoftlookupError(f"configuration: {where} does not fit.", expected=expected, got=repr(got))
