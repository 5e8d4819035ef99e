"""Keras layers and models, on torch: they get tensors as they are, and their weights for one call."""

from __future__ import annotations

import contextlib
import inspect
import random
import re
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.callee import Callee, Outside, in_dtype, replaced
from softlookup.checker.calls import Call, Weight
from softlookup.checker.inside import likely_inputs
from softlookup.checker.written_with import is_a
from softlookup.terms import SoftlookupError

_SEED = "seed_generator_state"  # the variable from which a layer draws its random numbers


def recognises(target: Any) -> bool:
    """Say whether this is a layer, a model, or a class of one."""
    family = inspect.getmro(target if inspect.isclass(target) else type(target))
    return is_a(target, "keras") and any(cls.__name__ == "Layer" for cls in family)


def callee(target: Any) -> Callee:
    """Return how it is called.

    Raises: SoftlookupError when Keras runs on another backend than torch.
    """
    if _backend() != "torch":
        raise SoftlookupError(
            f"check: {type(target).__name__} is a layer of Keras on another backend.",
            expected="Keras on torch",
            got=f"Keras on {_backend()}",
            hint="set KERAS_BACKEND=torch in the environment before Keras is imported",
        )
    return KerasCallee(target)


def outside(target: Any) -> Outside:
    """Return its class, and the parameters of ``call``; of an instance also what it holds."""
    if inspect.isclass(target):
        return Outside(target, called=_call_of(target))
    if _backend() != "torch":
        return Outside(type(target), called=target.call)
    layer = KerasCallee(target).layer()
    parts = dict(_parts(layer))
    held = [(name, tuple(v.shape), v.trainable) for name, v in _variables(layer).items() if _is_real(v)]
    return Outside(
        type(target),
        called=target.call,
        weights=tuple(Weight(*one) for one in held),
        parts={path: type(part).__name__ for path, part in parts.items() if path},
        settings={
            f"{path}.{name}".lstrip("."): value
            for path, part in parts.items()
            for name, value in _settings(part)
        },
    )


def _call_of(layer: Any) -> Any:
    return layer.call


def _backend() -> str:
    import keras

    return str(keras.backend.backend())


class KerasCallee:
    """A layer. Of one that is not built yet a copy is built with its first inputs, where Keras can copy."""

    differentiable = True

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._takes = inspect.signature(layer.call).parameters
        self._built: dict[tuple[int, ...], Any] = {}  # widths of the inputs -> a layer built for them

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it with its own weights, but for those that are given; it keeps its own.

        Raises: ValueError for a weight that it does not have.
        """
        layer = self._for(args, kwargs)
        variables = _variables(layer)
        own = {name: variable.value for name, variable in variables.items() if _is_real(variable)}
        values = replaced(in_dtype(own, asked.dtype), weights)
        seed = torch.tensor([asked.seed, 0])
        states = {name: seed.to(v.value) for name, v in variables.items() if name.endswith(_SEED)}
        values = {name: (values | states).get(name, variable.value) for name, variable in variables.items()}
        of = {id(variable): values[name] for name, variable in variables.items()}
        if "training" in self._takes and "training" not in kwargs:
            kwargs = {**kwargs, "training": asked.training}
        result, _ = layer.stateless_call(
            [of[id(variable)] for variable in layer.trainable_variables],
            [of[id(variable)] for variable in layer.non_trainable_variables],
            *args,
            **kwargs,
        )
        return result

    def weights(self) -> dict[str, Tensor]:
        """Return its variables that hold real numbers; before it is built, those for a likely width."""
        return {name: v.value.detach() for name, v in _variables(self.layer()).items() if _is_real(v)}

    def layer(self) -> Any:
        """Return the layer, built where that can be done without changing it."""
        if self._layer.built or self._built:
            return next(iter(self._built.values()), self._layer)
        fresh = _copied(self._layer)
        if fresh is not None:
            inputs = likely_inputs(fresh.call, dict(_settings(fresh)))
            with contextlib.suppress(Exception):  # it takes other inputs: it is built with the first ones
                self._for(inputs, {})
        return next(iter(self._built.values()), self._layer)

    def device(self) -> torch.device | None:
        """Return where its first variable lies, or will lie."""
        first = next(iter(self.weights().values()), None)
        return torch.device("cpu") if first is None else first.device

    def _for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return a layer that is built for inputs of this width."""
        if self._layer.built:
            return self._layer
        given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
        widths = tuple(tensor.shape[-1] for tensor in given if tensor.is_floating_point())
        if widths not in self._built:
            state = random.getstate()
            random.seed(0)  # Keras draws the seeds of its initializers here
            try:
                built = _copied(self._layer) or self._layer
                with torch.no_grad():
                    built(*args, **kwargs)
            finally:
                random.setstate(state)
            self._built[widths] = built
        return self._built[widths]


def _copied(layer: Any) -> Any:
    """Return the same layer not yet built; None where Keras does not know how it was made."""
    try:
        config = layer.get_config()
        taken = inspect.signature(type(layer)).parameters
        if not any(one.kind is one.VAR_KEYWORD for one in taken.values()):  # less than Keras keeps of it
            config = {name: value for name, value in config.items() if name in taken}
        return type(layer).from_config(config)
    except (NotImplementedError, TypeError, ValueError):
        return None


def _parts(layer: Any, path: str = "", seen: tuple[int, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield the layer and all layers in it, called by their attributes, or by names that they were given."""
    yield path, layer
    for part in layer._layers:
        if id(part) not in seen:
            inner = f"{path}.{_name_in(layer, part)}".lstrip(".")
            yield from _parts(part, inner, (*seen, id(layer)))


def _name_in(owner: Any, part: Any) -> str:
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(part).__name__).lower()
    if not re.fullmatch(rf"{words}(_\d+)?", part.name):
        return str(part.name)
    held = {**vars(owner).get("_modules", {}), **vars(owner)}
    del held["_layers"]
    for name, value in held.items():
        if value is part:
            return str(name).strip("_")
        if isinstance(value, (list, tuple)) and any(item is part for item in value):
            return f"{name.strip('_')}.{[item is part for item in value].index(True)}"
    return str(part.name)


def _variables(layer: Any) -> dict[str, Any]:
    """Return the variables of the layer and its parts as "query.kernel"."""
    owners: dict[int, str] = {}
    for path, part in _parts(layer):  # the innermost owner comes last
        owners |= {id(variable): path for variable in part.variables}
    named = (
        (f"{owners[id(variable)]}.{variable.name}".lstrip("."), variable) for variable in layer.variables
    )
    return dict(named)


def _is_real(variable: Any) -> bool:
    return bool(variable.value.is_floating_point())


def _settings(layer: Any) -> Iterator[tuple[str, int | float]]:
    """Yield what the layer was made with: num_heads, key_dim and the like."""
    try:
        config = layer.get_config()
    except NotImplementedError:
        config = {name.strip("_"): value for name, value in vars(layer).items()}
    for name, value in config.items():
        if isinstance(value, (bool, int, float)) and name != "trainable":
            yield name, value
