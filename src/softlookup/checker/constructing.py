"""Build a module from its class alone: constructor arguments are filled in from names and annotations.

Runs in the child, on the live class. What the user gave always wins. The same request always builds the same
weights, and the random numbers of the caller stay as they were.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import inspect
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from softlookup.checker.calling import deepest_line
from softlookup.checker.class_sources import parameters_of, result_of, swallows
from softlookup.checker.config_objects import NotUnderstoodError
from softlookup.checker.constructor_arguments import (
    Order,
    UnfilledError,
    arguments_for,
    configs_of,
    orders,
)
from softlookup.checker.constructor_names import meaning_of
from softlookup.checker.constructor_values import DECIDES
from softlookup.terms import SoftlookupError

_BUILDS = re.compile(r"(?:make|build|create|get|new|construct|init)_(\w+)")
_IS_MODULE = re.compile(
    r"(?:.*_)?(?:model|module|attn|attention|self_attention|mha|mqa|gqa|layer|block|net|network|encoder|decoder"
    r"|transformer|head|it|instance)s?"
)


@dataclass(frozen=True)
class Built:
    """An instance, and argument -> repr of what its constructor was given."""

    instance: Any
    arguments: dict[str, str]


class CannotConstructError(SoftlookupError):
    """A class could not be built: which argument has no value or what was raised, and what to write."""


def construct(cls: type, given: dict[str, Any], weightless: bool = False) -> Built:
    """Build an instance of a class.

    cls: a class of the user, mostly an nn.Module
    given: argument -> value, from the user; ``config.n_embd`` or only ``n_embd`` reaches into a config
    weightless: the class takes heads that are projected already; only what has no default is filled in, with
        heads of width 8

    Sizes (d_model, num_heads, num_kv_heads) are tried until the constructor takes them: (48, 6, 3),
    (24, 3, 3), (64, 4, 2), (32, 2, 1), (48, 6, 6), and last the constructor's own defaults. Modules come in
    eval mode.

    Raises: CannotConstructError when no value for an argument can be guessed, when a given name is none of
    the constructor's, or when the constructor raises for every set of sizes.

    >>> class Attention(nn.Module):
    ...     def __init__(self, dim, heads=8, dropout=0.0):
    ...         super().__init__()
    >>> construct(Attention, {"heads": 4}).arguments
    {'dim': '32', 'heads': '4', 'dropout': '0.25'}
    """
    _refuse_unknown(cls, given)
    first: Exception | None = None
    for order in orders(cls, given, weightless=weightless):
        try:
            built = _attempt(cls, order)
        except (UnfilledError, NotUnderstoodError) as problem:
            raise _unfilled(cls, str(problem.args[0])) from None
        except MemoryError:  # a limit was met; the child says which
            raise
        except Exception as error:
            first = first or error
            continue
        _refuse_unused(cls, order)
        return built
    assert first is not None
    asked = next((one for one in _chain(first) if isinstance(one, NotUnderstoodError)), None)
    raise _unfilled(cls, asked.path) if asked else _raised(cls.__name__, cls, first) from first


def instance_of(cls: type, given: dict[str, Any]) -> Any:
    """Return an instance; one without weights of its own is given what heads that are projected already need.

    Raises: CannotConstructError when an argument has no value, or the constructor raises.
    """
    if not issubclass(cls, nn.Module):
        has_layers = any(base.__module__.startswith(("flax.", "keras.")) for base in cls.__mro__)
        return construct(cls, given, weightless=not has_layers).instance
    instance = construct(cls, given).instance
    if next(instance.parameters(), None) is not None:
        return instance
    return construct(cls, given, weightless=True).instance


def is_factory(function: Any) -> bool:
    """Say whether a function builds a module: nothing has to be given, and its name or annotation says so.

    >>> def make_model(): ...
    >>> def attend(): ...
    >>> is_factory(make_model), is_factory(attend)
    (True, False)
    """
    if not inspect.isfunction(function):
        return False
    for one in inspect.signature(function).parameters.values():
        if one.default is one.empty and one.kind not in {one.VAR_POSITIONAL, one.VAR_KEYWORD}:
            return False
    result = result_of(function)
    if result is not None:
        return inspect.isclass(result) and issubclass(result, nn.Module)
    named = _BUILDS.fullmatch(function.__name__.lower())
    return named is not None and bool(_IS_MODULE.fullmatch(named[1]) or _returns_module(function))


def made(function: Callable[[], Any]) -> nn.Module:
    """Return the module that a factory makes, in eval mode.

    Raises: CannotConstructError when it raises, or returns anything but a module.
    """
    name = getattr(function, "__name__", "the factory")
    try:
        with _own_random_numbers():
            result = function()
            if isinstance(result, nn.Module):
                return result.eval()
    except MemoryError:
        raise
    except Exception as error:
        raise _raised(name, function, error) from error
    raise CannotConstructError(
        f"check: {name}() built no module.",
        expected="a torch.nn.Module",
        got=f"the class {result.__name__}" if inspect.isclass(result) else type(result).__name__,
        hint=f"return an instance: return {result.__name__}(...)"
        if inspect.isclass(result)
        else "return the module from it",
    )


def _attempt(cls: type, order: Order) -> Built:
    """Build once; once more when the constructor asks for arguments that its signature does not show."""
    for _ in range(2):
        with _own_random_numbers():
            arguments = arguments_for(cls, order)
            first = [one.name for one in parameters_of(cls) if one.kind is one.POSITIONAL_ONLY]
            args = [arguments[name] for name in first if name in arguments]
            kwargs = {name: value for name, value in arguments.items() if name not in first}
            try:
                instance = cls(*args, **kwargs)
                if isinstance(instance, nn.Module):
                    instance.eval()
                return Built(instance, {name: _shown(value) for name, value in arguments.items()})
            except TypeError as error:
                lacking = re.search(r"missing \d+ required [\w-]+ arguments?: (.*)", str(error))
                order.extra = tuple(re.findall(r"'(\w+)'", lacking[1])) if lacking and not order.extra else ()
                if not order.extra or not swallows(cls):
                    raise
    raise AssertionError("the second attempt returns or raises")


@contextlib.contextmanager
def _own_random_numbers() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # of the CPU alone: a GPU's numbers are not put back
        yield


def _refuse_unknown(cls: type, given: dict[str, Any]) -> None:
    """Refuse names that neither the constructor nor a config of it can take."""
    names, configs = [one.name for one in parameters_of(cls)], configs_of(cls)
    for name in given:
        root = name.partition(".")[0]
        if name in names or (configs and (root in configs or "." not in name)) or swallows(cls):
            continue
        raise _not_an_argument(cls, name, names)


def _refuse_unused(cls: type, order: Order) -> None:
    """Refuse names that a config was never asked for; a size under another name has decided the sizes."""
    for name in order.given.keys() - order.used:
        if "." in name or meaning_of(name) not in DECIDES:
            raise _not_an_argument(cls, name, [one.name for one in parameters_of(cls)])


def _not_an_argument(cls: type, name: str, names: list[str]) -> CannotConstructError:
    meaning = meaning_of(name)
    near = [one for one in names if meaning and meaning_of(one) == meaning]
    near = near or ([] if "." in name else difflib.get_close_matches(name, names, 3, 0.6))
    configs = "".join(f", and what is read from {one}" for one in configs_of(cls))
    return CannotConstructError(
        f"check: {cls.__name__} takes no argument {name!r}.",
        expected=f"names among {', '.join(names)}{configs}" if names else "no arguments at all",
        got=f"--init {name}=...",
        hint=f"did you mean {' or '.join(near)}?" if near else f"leave {name} out",
    )


def _unfilled(cls: type, name: str) -> CannotConstructError:
    return CannotConstructError(
        f"check: {cls.__name__} could not be built: no value is known for {name!r}.",
        expected="constructor arguments whose names or annotations tell what they are",
        got=f"{cls.__name__}({', '.join(one.name for one in parameters_of(cls))})",
        hint=_way_out(cls.__name__, cls, f"--init {name}=..."),
    )


def _raised(name: str, what: Any, error: Exception) -> CannotConstructError:
    line = deepest_line(error.__traceback__, _file_of(what))
    words = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {words[0][:300]}" if words else type(error).__name__
    is_class = inspect.isclass(what)
    first = next((one.name for one in parameters_of(what)), "NAME") if is_class else ""
    option = f"--init {first}.NAME=..." if is_class and first in configs_of(what) else f"--init {first}=..."
    return CannotConstructError(
        f"check: {name} could not be built: it raised for every set of sizes that was tried."
        if is_class
        else f"check: {name}() raised.",
        expected="a constructor that takes (d_model, num_heads) = (48, 6), (24, 3), (64, 4) or (32, 2)"
        if is_class
        else "a factory that returns a torch.nn.Module",
        got=f"{said}, at line {line}" if line else said,
        hint=_way_out(name, what, option) if is_class else "make it return by itself",
    )


def _way_out(name: str, what: Any, option: str) -> str:
    file = os.path.basename(_file_of(what)) or "FILE"
    return (
        f"{option}, or a factory: def make_model(): return {name}(...)"
        f" and then softlookup check {file}:make_model"
    )


def _returns_module(function: Any) -> bool:
    """Say whether the source of a function returns a call of a module class that it can see."""
    try:
        tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    called = [ast.unparse(value.func) for value in returned if isinstance(value, ast.Call)]
    found = [function.__globals__.get(name) for name in called]
    return any(inspect.isclass(one) and issubclass(one, nn.Module) for one in found)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _file_of(what: Any) -> str:
    try:
        return inspect.getsourcefile(inspect.unwrap(what)) or ""
    except (OSError, TypeError):
        return ""


def _shown(value: Any) -> str:
    if inspect.isclass(value) or inspect.isfunction(value):
        return str(value.__name__)
    try:
        return repr(value)[:300]
    except Exception:
        return f"<{type(value).__name__}>"
