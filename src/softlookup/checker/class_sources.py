"""What a class shows of itself from outside: parameters, annotations, source, and the names it reads."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import sys
import types
import typing
from typing import Any

_VARIADIC = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}


def parameters_of(cls: type) -> list[inspect.Parameter]:
    """Return the named parameters of a constructor; of the next in line where it only passes them on."""
    if is_typed_dict(cls):
        keyword = inspect.Parameter.KEYWORD_ONLY
        return [inspect.Parameter(k, keyword, annotation=v) for k, v in cls.__annotations__.items()]
    found = _signature(cls)
    named = [one for one in found if one.kind not in _VARIADIC]
    constructors = (vars(base)["__init__"] for base in cls.__mro__[:-1] if "__init__" in vars(base))
    for constructor in constructors if found and not named else ():
        named = [one for one in _signature(constructor)[1:] if one.kind not in _VARIADIC]
        if named:
            break
    return named


def swallows(cls: type) -> bool:
    """Say whether a constructor takes any keyword."""
    return any(one.kind is one.VAR_KEYWORD for one in _signature(cls))


def _signature(function: Any) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C, without a signature
        return []


def is_typed_dict(cls: type) -> bool:
    """Say whether a class describes the keys of a plain dict."""
    return issubclass(cls, dict) and hasattr(cls, "__total__")


def resolved(annotation: Any, names: dict[str, Any]) -> Any:
    """Return what an annotation means, also as a string; the first of a union; None when unknown.

    >>> resolved("int | None", {})
    <class 'int'>
    """
    if isinstance(annotation, str):
        try:
            return resolved(eval(annotation, {**vars(builtins), **names}) or type(None), names)
        except Exception:  # written for type checkers only, or in a newer Python
            return None
    inner = [one for one in typing.get_args(annotation) if one is not type(None)]
    is_union = typing.get_origin(annotation) in {typing.Union, types.UnionType}
    return resolved(inner[0], names) if is_union and inner else annotation


def result_of(function: Any) -> Any:
    """Return what a function's annotation says that it returns; None when it says nothing."""
    annotation = getattr(function, "__annotations__", {}).get("return", Any)
    if annotation is None:
        return type(None)
    result = resolved(annotation, function.__globals__)
    return None if result is Any else result


@functools.cache
def source_of(cls: type) -> str:
    """Return the source of a class and of its own ancestors, without torch's."""
    return "\n".join(_source(base) for base in cls.__mro__ if not _is_foreign(base))


@functools.cache
def file_source_of(cls: type) -> str:
    """Return the source of the file that a class is defined in, or of the class where there is no file."""
    module = sys.modules.get(cls.__module__)
    return (_source(module) if module else "") or source_of(cls)


def _source(what: Any) -> str:
    try:
        return inspect.cleandoc("\n" + inspect.getsource(what))
    except (OSError, TypeError, SyntaxError):
        return ""


def _is_foreign(cls: type) -> bool:
    return cls.__module__.split(".")[0] in {"torch", "builtins", "typing", "abc"}


def globals_of(cls: type) -> dict[str, Any]:
    """Return the names of the file that a class is defined in."""
    return vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}


def globals_read_by(cls: type) -> dict[str, Any]:
    """Return name -> value of what the methods of a class read from their file."""
    methods = [inspect.unwrap(one) for one in vars(cls).values() if inspect.isfunction(one)]
    return {
        one.argval: method.__globals__[one.argval]
        for method in methods
        for one in dis.get_instructions(method)
        if one.opname == "LOAD_GLOBAL" and one.argval in method.__globals__
    }
