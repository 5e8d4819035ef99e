"""Describe a callable from outside: its signature, docstring, place and source, without calling it."""

from __future__ import annotations

import ast
import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import is_dataclass, replace
from typing import Any, Literal

from torch import nn

from softlookup.checker.callee import Outside, module_of
from softlookup.checker.calls import Parameter, Sketch
from softlookup.checker.frameworks import callee_of, framework_of
from softlookup.checker.inside import facts_inside

_KINDS: dict[Any, Literal["positional-only", "positional", "keyword-only", "*args", "**kwargs"]] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional-only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword-only",
    inspect.Parameter.VAR_POSITIONAL: "*args",
    inspect.Parameter.VAR_KEYWORD: "**kwargs",
}


_FRAMEWORKS = (
    "builtins",
    "torch.nn.modules.module",
    "flax.linen.module",
    "flax.nnx.module",
    "keras.src.layers.layer",
)


def sketch_of(target: Any, name: str = "") -> Sketch:
    """Return the sketch of a function, a class or an instance that can be called.

    The parameters are those of the call itself: of ``forward`` for a module, of ``__call__`` else.

    >>> [parameter.name for parameter in sketch_of(lambda q, k, v: q).parameters]
    ['q', 'k', 'v']
    """
    seen = _outside(target)
    code = _code_of(target, seen)
    source, line = _source_of(seen.shown)
    parameters = _call_parameters(target, seen)
    return Sketch(
        name=name or seen.name or getattr(target, "__name__", type(target).__name__),
        kind="function" if inspect.isroutine(seen.shown) else _kind(target),
        file=seen.file or _file_of(seen.shown) or _file_of_code(code),
        line=line or (code.co_firstlineno if code else 0),
        doc=seen.doc or _doc_of(seen.shown),
        parameters=parameters if seen.parameters is None else seen.parameters,
        init_parameters=_constructor_parameters(target),
        bases=tuple(f"{b.__module__}.{b.__qualname__}" for b in _ancestors(target)),
        source=source,
        weights=seen.weights,
        parts=seen.parts,
        settings=seen.settings,
        differentiable=_is_differentiable(target),
    )


def _call_parameters(target: Any, seen: Outside) -> tuple[Parameter, ...]:
    """Return the parameters of a call; where ``forward`` hands ``*args`` on, also those of its parent."""
    own = _parameters(seen.called or called_by(target), without_self=inspect.isclass(target))
    module = target if inspect.isclass(target) else type(target)
    if not issubclass(module, nn.Module) or not any(one.kind == "*args" for one in own):
        return own
    named = [one for one in own if not one.kind.startswith("*")]
    taken = {one.name for one in named}
    for parent in module.__mro__[1 : module.__mro__.index(nn.Module)]:
        more = _parameters(vars(parent)["forward"])[1:] if "forward" in vars(parent) else ()
        if more and not any(one.kind == "*args" for one in more):
            handed = (one for one in more if one.name not in taken)
            # What may be left out goes by name: those between may be taken here.
            return (*(one if one.required else replace(one, kind="keyword-only") for one in handed), *named)
    return own


def _constructor_parameters(target: Any) -> tuple[Parameter, ...]:
    if inspect.isclass(target):
        return _parameters(target.__init__, without_self=True)
    return _parameters(type(target)) if isinstance(target, nn.Module) else ()


def _outside(target: Any) -> Outside:
    framework = framework_of(target)
    if framework is not None:
        return framework.outside(target)
    return Outside(target if _is_written_down(target) else type(target), **facts_inside(module_of(target)))


def _is_differentiable(target: Any) -> bool:
    """Say whether gradients pass through a call; of a class not yet built, nothing is known against it."""
    if inspect.isclass(target) or (framework_of(target) is None and module_of(target) is None):
        return True
    return callee_of(target).differentiable


def code_of(target: Any) -> Any:
    """Return the code object that runs when the target is called; None when it is not written in Python."""
    return _code_of(target, _outside(target))


def _code_of(target: Any, seen: Outside) -> Any:
    function = seen.called or called_by(target)
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(inspect.unwrap(function), "__code__", None)


def called_by(target: Any) -> Callable[..., Any]:
    """Return the function that holds the target's own code: ``forward`` of a module or of a module class."""
    if isinstance(target, nn.Module) or (inspect.isclass(target) and issubclass(target, nn.Module)):
        return target.forward
    if inspect.isclass(target):
        calls = (vars(part)["__call__"] for part in inspect.getmro(target) if "__call__" in vars(part))
        return next(calls, _never)
    if _is_written_down(target) or isinstance(target, functools.partial):
        return target  # type: ignore[no-any-return]
    return getattr(target, "__call__", target)  # type: ignore[no-any-return] # noqa: B004


def _never() -> None:
    """Stand in for the call of a class whose instances cannot be called."""


def _doc_of(shown: Any) -> str:
    """Return the docstring; of a class its own, not that of a framework's base class."""
    if inspect.isclass(shown):
        own = (part for part in inspect.getmro(shown) if not part.__module__.startswith(_FRAMEWORKS))
        shown = next((part for part in own if _says_something(part)), None)
    return (inspect.getdoc(shown) or "") if shown is not None else ""


def _says_something(cls: type) -> bool:
    """A dataclass without a docstring is given its signature as one."""
    return bool(cls.__doc__) and not (is_dataclass(cls) and str(cls.__doc__).startswith(f"{cls.__name__}("))


def _file_of(shown: Any) -> str:
    try:
        return os.path.abspath(inspect.getsourcefile(inspect.unwrap(shown)) or "")
    except TypeError:  # written in C
        return ""


def _file_of_code(code: Any) -> str:
    """Return where a call is written; that of a class is unknown when its module is not registered."""
    return os.path.abspath(code.co_filename) if code and os.path.isfile(code.co_filename) else ""


def _is_written_down(target: Any) -> bool:
    return inspect.isroutine(target) or inspect.isclass(target)


def _kind(target: Any) -> Literal["function", "class", "instance"]:
    if inspect.isclass(target):
        return "class"
    return "function" if inspect.isroutine(target) else "instance"


def _ancestors(target: Any) -> list[type]:
    if inspect.isroutine(target):
        return []
    own = target if inspect.isclass(target) else type(target)
    return [base for base in inspect.getmro(own)[1:] if base is not object]


def _source_of(target: Any) -> tuple[str, int]:
    """Return the source and the line of ``def`` or ``class``, which decorators precede."""
    try:
        lines, first = inspect.getsourcelines(inspect.unwrap(target))
    except (OSError, TypeError, SyntaxError):
        return "", 0
    for offset, text in enumerate(lines):
        if text.lstrip().startswith(("def ", "async def ", "class ")):
            return "".join(lines), max(first, 1) + offset
    return "".join(lines), max(first, 1)


def _parameters(function: Callable[..., Any], *, without_self: bool = False) -> tuple[Parameter, ...]:
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # written in C, without a signature
        return _documented_parameters(function)
    if without_self and found and found[0].kind is not inspect.Parameter.VAR_POSITIONAL:
        found = found[1:]
    return tuple(
        Parameter(
            name=one.name,
            kind=_KINDS[one.kind],
            required=one.default is one.empty and not _KINDS[one.kind].startswith("*"),
            default="" if one.default is one.empty else _repr(one.default),
            annotation="" if one.annotation is one.empty else inspect.formatannotation(one.annotation),
        )
        for one in found
    )


def _documented_parameters(function: Callable[..., Any]) -> tuple[Parameter, ...]:
    """Read ``name(a, b=None) -> ...`` at the start of a docstring, as functions written in C have it."""
    head = (inspect.getdoc(function) or "").strip().partition(" -> ")[0].rstrip().removesuffix(":")
    try:
        tree = ast.parse(f"def {head}: ...").body[0]
    except SyntaxError:
        return ()
    assert isinstance(tree, ast.FunctionDef)
    names, given = tree.args.args, tree.args.defaults
    plain = [None] * (len(names) - len(given)) + list(given)
    pairs = [*zip(names, plain, strict=True), *zip(tree.args.kwonlyargs, tree.args.kw_defaults, strict=True)]
    return tuple(
        Parameter(
            name=one.arg,
            kind="positional" if one in names else "keyword-only",
            required=default is None,
            default="" if default is None else ast.unparse(default),
        )
        for one, default in pairs
    )


def _repr(value: Any) -> str:
    try:
        return repr(value)[:200]
    except Exception:
        return f"<{type(value).__name__}>"
