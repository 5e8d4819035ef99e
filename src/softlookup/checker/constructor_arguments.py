"""Values for everything that a constructor asks: its arguments, and the fields of its config."""

from __future__ import annotations

import enum
import inspect
import re
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from softlookup.checker.class_sources import (
    file_source_of,
    globals_of,
    globals_read_by,
    parameters_of,
    resolved,
    source_of,
    swallows,
)
from softlookup.checker.config_objects import (
    AskedConfig,
    NotUnderstoodError,
    defaults_in,
    is_called_config,
    is_config_class,
    is_named_config,
    is_pretrained,
    is_section,
)
from softlookup.checker.constructor_names import Surroundings, meaning_of
from softlookup.checker.constructor_values import (
    DECIDES,
    LADDER,
    UNKNOWN,
    WEIGHTLESS,
    Sizes,
    gives_way,
    is_pair,
    value_of,
    words_of,
)

_NO_DEFAULT = inspect.Parameter.empty
_DEEPEST = 3  # modules that want modules that want modules


class UnfilledError(Exception):
    """No value is known for this argument."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass
class Order:
    """One way to fill in a class: a rung of the ladder.

    sizes: the sizes that hang together
    given: what the user gave: argument, attribute of a config, or dotted ``config.attribute``, -> value
    keeps_defaults: give only what has no default
    weightless: the class takes heads, not tokens
    used: the names of ``given`` that were asked for so far
    extra: arguments that only the constructor's own error told of
    """

    sizes: Sizes
    given: dict[str, Any]
    keeps_defaults: bool = False
    weightless: bool = False
    used: set[str] = field(default_factory=set)
    extra: tuple[str, ...] = ()


def configs_of(cls: type) -> dict[str, type | None]:
    """Return parameter -> class of the config it takes; None where only its attributes are known."""
    found: dict[str, type | None] = {}
    for one in parameters_of(cls):
        annotated = resolved(one.annotation, globals_of(cls))
        if is_config_class(annotated):
            found[one.name] = annotated
        elif is_config_class(type(one.default)):
            found[one.name] = type(one.default)
        elif (
            is_called_config(one.name)
            and one.default is _NO_DEFAULT
            and annotated not in (int, float, bool, str)
        ):
            found[one.name] = _config_class_beside(cls, one.name)
    return found


def orders(cls: type, given: dict[str, Any], *, weightless: bool) -> Iterator[Order]:
    """Yield the ladder: each set of sizes in turn, made to agree with what is fixed, then the defaults."""
    last_parts = {name.rpartition(".")[2]: value for name, value in given.items()}
    around = Surroundings(weightless=weightless)
    asked = {meaning_of(one.name) for one in parameters_of(cls)}
    file = _sizes_among(globals_read_by(cls), around)  # nn.Linear(n_embd, head_size) with a global n_embd
    fixed = {meaning: size for meaning, size in file.items() if meaning not in asked}
    fixed |= _sizes_among(last_parts, around)
    ladder = [WEIGHTLESS, *(sizes for sizes in LADDER if sizes != WEIGHTLESS)] if weightless else list(LADDER)
    agreed = list(dict.fromkeys(sizes.agreeing_with(fixed) for sizes in ladder))
    fitting = [sizes for sizes in agreed if sizes.d_model % sizes.num_heads == 0] or agreed
    for sizes in fitting:
        yield Order(sizes, given, keeps_defaults=weightless, weightless=weightless)
    if not weightless:
        yield Order(fitting[0], given, keeps_defaults=True)


def _sizes_among(values: dict[str, Any], around: Surroundings) -> dict[str, int]:
    found = ((meaning_of(name, around), value) for name, value in values.items() if type(value) is int)
    return {meaning: value for meaning, value in found if meaning in DECIDES and value > 0}


def arguments_for(cls: type, order: Order, depth: int = 0) -> dict[str, Any]:
    """Return parameter -> value for a class.

    Raises: UnfilledError for the first parameter that no table knows.
    """
    known = parameters_of(cls)
    names = [one.name for one in known]
    around = Surroundings(names, source_of(cls), cls.__name__, order.weightless)
    configs = configs_of(cls) if depth < _DEEPEST else {}
    arguments: dict[str, Any] = {}
    for one in [*known, *_told(order, names)]:
        if one.name in order.given:
            order.used.add(one.name)
            arguments[one.name] = order.given[one.name]
        elif one.name in configs:
            if one.default is _NO_DEFAULT or not order.keeps_defaults:
                arguments[one.name] = _config(cls, one.name, configs[one.name], order, depth)
        else:
            value = _value(one, around, order, cls, depth)
            if value is not UNKNOWN:
                arguments[one.name] = value
    if depth == 0 and swallows(cls):
        passed_on = {} if configs else order.given
        order.used |= set(passed_on)
        arguments |= passed_on
    return arguments


def _told(order: Order, names: list[str]) -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(name, keyword) for name in order.extra if name not in names]


def _value(one: inspect.Parameter, around: Surroundings, order: Order, cls: type, depth: int) -> Any:
    """Return what a parameter is given, or UNKNOWN when it keeps its default."""
    meaning = meaning_of(one.name, around)
    annotation = resolved(one.annotation, globals_of(cls))
    if one.default is not _NO_DEFAULT:
        replaced = not order.keeps_defaults and meaning and gives_way(meaning, one.default)
        if not replaced or meaning is None:
            return UNKNOWN
        value = value_of(meaning, order.sizes)
        return (value,) * len(one.default) if isinstance(one.default, tuple) else value
    if annotation is bool and meaning not in {"bias", "batch_first"}:
        return False
    if annotation in {None, str, inspect.Parameter.empty} and (words := words_of(one.name, around.source)):
        usual = value_of(meaning, order.sizes) if meaning else None
        return usual if usual in words else words[0]
    if meaning is None or _is_module(annotation):
        may_be_none = re.search(r"Optional|None", str(one.annotation))
        return None if may_be_none else _value_by_annotation(one.name, annotation, order, depth)
    if meaning == "activation" and annotation is str:
        meaning = "activation_name"
    value = value_of(meaning, order.sizes, weightless=order.weightless)
    if isinstance(value, int) and _wants_a_pair(one.name, annotation, around):
        return (value, value)
    return value


def _wants_a_pair(name: str, annotation: Any, around: Surroundings) -> bool:
    return (
        typing.get_origin(annotation) in {tuple, list} or annotation is tuple or is_pair(name, around.source)
    )


def _is_module(annotation: Any) -> bool:
    return inspect.isclass(annotation) and issubclass(annotation, nn.Module)


def _value_by_annotation(name: str, annotation: Any, order: Order, depth: int) -> Any:
    """Return what a parameter whose name says nothing is given."""
    if typing.get_origin(annotation) is typing.Literal:
        return typing.get_args(annotation)[0]
    if inspect.isclass(annotation) and issubclass(annotation, enum.Enum):
        return next(iter(annotation))
    if _is_module(annotation) and annotation is not nn.Module and depth < _DEEPEST:
        inner = Order(order.sizes, {}, order.keeps_defaults, order.weightless)
        return annotation(**arguments_for(annotation, inner, depth + 1))
    raise UnfilledError(name)


def _config(cls: type, path: str, config: type | None, order: Order, depth: int) -> Any:
    """Return an instance of the config class, or a stand-in that answers what the class asks it."""
    if config is None:
        return _asked(cls, path, order)
    under = {  # what was given for this config, or for no config in particular
        name.removeprefix(f"{path}."): value
        for name, value in order.given.items()
        if name.startswith(f"{path}.") or "." not in name
    }
    inner = Order(order.sizes, under, order.keeps_defaults)
    arguments = arguments_for(config, inner, depth + 1)
    if is_pretrained(config):
        arguments.pop("vocab_size", None)  # special tokens lie high in the vocabulary
        for one in parameters_of(config):
            if one.default is None and meaning_of(one.name) == "window":  # its masks are made above the layer
                arguments.pop(one.name, None)
        arguments = {"attn_implementation": "eager", **arguments, **under}
        inner.used |= set(under)  # it takes any keyword
    built: Any = config(**arguments)
    for name in under.keys() - inner.used:  # what the class sets itself
        if hasattr(built, name):
            setattr(built, name, under[name])
            inner.used.add(name)
    order.used |= {name for name in order.given if name.removeprefix(f"{path}.") in inner.used}
    return built


def _asked(cls: type, root: str, order: Order) -> AskedConfig:
    """Return a stand-in for a config: what it is asked is understood like an argument of that name."""
    source, own = file_source_of(cls), source_of(cls)
    defaults = defaults_in(source, UNKNOWN)
    around = Surroundings(set(re.findall(r"\w+", own)), own, cls.__name__)

    def answer(path: str) -> Any:
        name = path.rpartition(".")[2]
        for key in (path, path.removeprefix(f"{root}."), name):
            if key in order.given:
                order.used.add(key)
                return order.given[key]
        is_read = re.search(rf"\b{root}(?:\.\w+)*\.{name}\b", source)
        default = _NO_DEFAULT if is_read else defaults.get(name, _NO_DEFAULT)
        one = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
        try:
            value = _value(one, around, order, cls, _DEEPEST)
        except UnfilledError:
            value = UNKNOWN
        if value is UNKNOWN:
            raise NotUnderstoodError(path)
        return value

    def holds_more(path: str) -> bool:
        name = path.rpartition(".")[2]
        if f"{root}." in path and any(key.startswith(f"{path}.") for key in order.given):
            return True
        return is_section(name, own) if meaning_of(name, around) is None else False

    return AskedConfig(root, answer, holds_more)


def _config_class_beside(cls: type, parameter: str) -> type | None:
    """Return the config class of the same file that a parameter without annotation must mean, or None.

    It has every attribute that the class reads from that parameter; the one named like the class wins.
    """
    read = set(re.findall(rf"\b(?:self\.)?_?{re.escape(parameter)}\.(\w+)", source_of(cls)))
    found = [
        (_common_start(name, cls.__name__), one)
        for name, one in globals_of(cls).items()
        if is_config_class(one) and is_named_config(one) and read <= _attributes_of(one)
    ]
    best = max((length for length, _ in found), default=0)
    classes = {one for length, one in found if length == best}
    return classes.pop() if read and len(classes) == 1 else None


def _attributes_of(config: type) -> set[str]:
    """Return what instances have, as far as the class shows it."""
    names = set(dir(config)) | set(getattr(config, "model_fields", {}))
    names |= {name for base in config.__mro__ for name in vars(base).get("__annotations__", {})}
    names |= set(re.findall(r"self\.(\w+)\s*(?::[^=\n]+)?=", source_of(config)))
    return names | set(getattr(config, "attribute_map", {}))


def _common_start(first: str, second: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b),
        min(len(first), len(second)),
    )
