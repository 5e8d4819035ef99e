"""With which library a piece of code computes: by what it is annotated with, uses and imports.

Only names are compared. Nothing is imported: a library that the code uses has been imported by its file.
"""

from __future__ import annotations

import dis
import functools
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any

#: The libraries that arrays come from. Code that uses several computes with the first of these.
_LIBRARIES = ("torch", "keras", "jax", "numpy")
_ALSO = {"jaxlib": "jax", "flax": "jax", "scipy": "numpy"}
_MOST_FUNCTIONS = 32  # of one file that are followed

#: What code in torch takes from NumPy too: plain numbers.
_OF_NUMBERS = {
    "sqrt",
    "log",
    "log2",
    "inf",
    "pi",
    "e",
    "nan",
    "newaxis",
    "prod",
    "floor",
    "ceil",
    "finfo",
    "float32",
    "float64",
}


def library_of(target: Any) -> str:
    """Return "torch", "keras", "jax" or "numpy", or "" when nothing says so.

    >>> import math
    >>> library_of(math.sqrt)
    ''
    """
    functions = list(_functions_of(target))
    stated = _first(root for function in functions for root in _annotated(function))
    if stated:
        return stated
    used: set[str] = set()
    arrays_of_numpy = False
    for function in functions:
        found, computes = _used(function, set())
        used |= found
        arrays_of_numpy |= computes
    imported = {root for function in functions for root in _imported(function)}
    if used - {"numpy"}:
        return _first(used)
    if "numpy" in used and ("torch" not in imported or arrays_of_numpy):
        return "numpy"
    return "" if {"torch", "numpy"} <= imported else _first(imported)


def _first(found: Iterable[str]) -> str:
    """Return the found library that counts most."""
    known = set(found)
    return next((library for library in _LIBRARIES if library in known), "")


def _functions_of(target: Any) -> Iterator[FunctionType]:
    """Yield the Python functions that a call may run: of a class or instance, all that its class defines."""
    while isinstance(target, functools.partial):
        target = target.func
    target = inspect.unwrap(target) if callable(target) else target
    if inspect.ismethod(target):
        target = target.__self__ if not inspect.isclass(target.__self__) else target.__func__
    if isinstance(target, FunctionType):
        yield target
    elif not inspect.isroutine(target):
        cls = target if inspect.isclass(target) else type(target)
        defined = (value for part in inspect.getmro(cls) for value in vars(part).values())
        plain = (getattr(value, "__func__", value) for value in defined)
        yield from (value for value in plain if isinstance(value, FunctionType))


def _annotated(function: FunctionType) -> Iterator[str]:
    """Yield the libraries that annotations of the parameters name."""
    for note in function.__annotations__.values():
        text = note if isinstance(note, str) else inspect.formatannotation(note)
        for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text):
            root = _root(function.__globals__.get(name)) or _library(name)
            if root:
                yield root


def _used(function: FunctionType, seen: set[CodeType]) -> tuple[set[str], bool]:
    """Return the libraries whose names the code mentions, and whether arrays are computed with NumPy."""
    code, names = function.__code__, function.__globals__
    if code in seen or len(seen) > _MOST_FUNCTIONS:
        return set(), False
    seen.add(code)
    found: set[str] = set()
    computes = False
    for name, attribute in _mentioned(code):
        value = names.get(name)
        root = _root(value) or (_library(name) if value is None and name in sys.modules else "")
        if root:
            found.add(root)
            computes |= root == "numpy" and attribute not in _OF_NUMBERS
        elif isinstance(value, FunctionType) and value.__globals__ is names:
            inner, more = _used(value, seen)
            found |= inner
            computes |= more
    return found, computes


def _mentioned(code: CodeType) -> Iterator[tuple[str, str]]:
    """Yield each global name with the attribute that is taken of it, in nested functions too."""
    for one, after in pairwise([*dis.get_instructions(code), None]):
        assert one is not None
        if one.opname in {"LOAD_GLOBAL", "LOAD_NAME", "IMPORT_NAME"}:
            attribute = after.argval if after and after.opname in {"LOAD_ATTR", "LOAD_METHOD"} else ""
            yield str(one.argval).partition(".")[0], str(attribute)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _mentioned(constant)


def _imported(function: FunctionType) -> Iterator[str]:
    """Yield the libraries that the function's own file imports."""
    yield from filter(None, map(_root, list(function.__globals__.values())))


def _root(value: Any) -> str:
    """Return the library that a module, function or class belongs to; "" for all others."""
    if isinstance(value, ModuleType):
        return _library(value.__name__)
    if inspect.isclass(value) or callable(value):
        return _library(str(getattr(value, "__module__", "")))
    return ""


def _library(name: str) -> str:
    root = name.partition(".")[0]
    root = _ALSO.get(root, root)
    return root if root in _LIBRARIES else ""


def is_a(target: Any, library: str) -> bool:
    """Say whether a class, or the class of an instance, descends from one whose module starts with this.

    >>> is_a(OSError(), "builtins")
    True
    """
    family = inspect.getmro(target if inspect.isclass(target) else type(target))
    return any(f"{cls.__module__}.".startswith(f"{library}.") for cls in family)
