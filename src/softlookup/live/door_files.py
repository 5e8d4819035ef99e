"""Finds the doors: one file each, by its name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from softlookup.live.around import Around
from softlookup.live.problem import Problem
from softlookup.live.products import Products, Written

Reader = Callable[[Sequence[Any], Mapping[str, Any], Any, "Around | None"], "Problem | None"]


@dataclass(frozen=True)
class Door:
    """One way by which attention is computed: see ``live.doors``."""

    name: str
    places: tuple[str, ...]
    read: Reader
    products: Callable[[Sequence[Any], Mapping[str, Any], Around | None], Products] | None = None
    written: Callable[[Sequence[Any], Mapping[str, Any], Any, Around | None], Written | None] | None = None


@lru_cache
def all_doors() -> tuple[Door, ...]:
    """Return all doors, by name."""
    names = sorted(path.stem for path in (Path(__file__).parent / "doors").glob("[a-z]*.py"))
    files = [import_module(f"softlookup.live.doors.{name}") for name in names]
    return tuple(
        Door(name, file.PLACES, file.read, getattr(file, "products", None), getattr(file, "written", None))
        for name, file in zip(names, files, strict=True)
    )
