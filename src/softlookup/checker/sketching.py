"""Describe a callable from outside: its signature, docstring, place and source, without calling it."""

from __future__ import annotations

import ast
import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from softlookup.checker.callee import Outside, module_of
from softlookup.checker.calls import Parameter, Sketch, Weight
from softlookup.checker.frameworks import framework_of

_KINDS: dict[Any, Literal["positional-only", "positional", "keyword-only", "*args", "**kwargs"]] = {
    inspect.Parameter.POSITIONAL_ONLY: "positional-only",
    inspect.Parameter.POSITIONAL_OR_KEYWORD: "positional",
    inspect.Parameter.KEYWORD_ONLY: "keyword-only",
    inspect.Parameter.VAR_POSITIONAL: "*args",
    inspect.Parameter.VAR_KEYWORD: "**kwargs",
}


def sketch_of(target: Any, name: str = "") -> Sketch:
    """Return the sketch of a function, a class or an instance that can be called.

    The parameters are those of the call itself: of ``forward`` for a module, of ``__call__`` else.

    >>> [parameter.name for parameter in sketch_of(lambda q, k, v: q).parameters]
    ['q', 'k', 'v']
    """
    seen = _outside(target)
    code = _code_of(target, seen)
    source, line = _source_of(seen.shown)
    parameters = _parameters(seen.called or called_by(target), without_self=inspect.isclass(target))
    return Sketch(
        name=name or getattr(target, "__name__", type(target).__name__),
        kind=_kind(target),
        file=seen.file or _file_of(seen.shown),
        line=line or (code.co_firstlineno if code else 0),
        doc=inspect.getdoc(seen.shown) or "",
        parameters=parameters if seen.parameters is None else seen.parameters,
        init_parameters=_parameters(target.__init__, without_self=True) if inspect.isclass(target) else (),
        bases=tuple(f"{b.__module__}.{b.__qualname__}" for b in _ancestors(target)),
        source=source,
        weights=seen.weights,
        parts=seen.parts,
        settings=seen.settings,
    )


def _outside(target: Any) -> Outside:
    framework = framework_of(target)
    if framework is not None:
        return framework.outside(target)
    return Outside(target if _is_written_down(target) else type(target), **_inside(target))


def _inside(target: Any) -> dict[str, Any]:
    """Describe what a built module holds: its weights, its parts and its plain settings."""
    module = module_of(target)
    if module is None:
        return {}
    trained = [Weight(n, _shape(t)) for n, t in module.named_parameters()]
    fixed = [Weight(n, tuple(t.shape), False) for n, t in module.named_buffers() if t.is_floating_point()]
    return {
        "weights": (*trained, *fixed),
        "parts": {path: type(part).__name__ for path, part in module.named_modules() if path},
        "settings": {
            f"{path}.{name}".lstrip("."): value
            for path, part in module.named_modules()
            for name, value in _settings(part)
        },
    }


def _shape(parameter: Tensor) -> tuple[int, ...]:
    return () if is_lazy(parameter) else tuple(parameter.shape)


def _settings(part: nn.Module) -> Iterator[tuple[str, int | float]]:
    """Yield the numbers and switches of a module, and of the config that it holds."""
    for name, value in vars(part).items():
        if name.startswith("_") or name == "training":
            continue
        if isinstance(value, (bool, int, float)):
            yield name, value
        elif name in {"config", "cfg", "args", "hparams"}:
            inner = value if isinstance(value, dict) else getattr(value, "__dict__", {})
            for key, setting in inner.items():
                if isinstance(setting, (bool, int, float)) and not str(key).startswith("_"):
                    yield f"{name}.{key}", setting


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


def _file_of(shown: Any) -> str:
    try:
        return os.path.abspath(inspect.getsourcefile(inspect.unwrap(shown)) or "")
    except TypeError:  # written in C
        return ""


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
