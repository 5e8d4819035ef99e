"""flax.linen modules. Their parameters are made from the inputs of a call, and live outside the module."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.callee import Callee, Outside, in_dtype, replaced
from softlookup.checker.calls import Call, Weight
from softlookup.checker.inside import likely_inputs, numbers_of
from softlookup.checker.jax_calls import Compiled, JaxCallee, Run, call_with_arrays
from softlookup.checker.written_with import is_a

#: A call says with these whether it trains; the value is what they are when it does.
_TRAINING = {"deterministic": False, "train": True, "training": True, "is_training": True}


def recognises(target: Any) -> bool:
    """Say whether this is a module, or a class of one."""
    return is_a(target, "flax.linen") and callable(target)


def callee(target: Any) -> Callee:
    """Return how it is called: with parameters of the check's own."""
    return LinenCallee(target)


def outside(target: Any) -> Outside:
    """Return its class; of an instance, the fields, and the weights for tokens of a likely width."""
    if inspect.isclass(target):
        return Outside(target)
    weights = LinenCallee(target).weights()
    shapes = tuple(Weight(name, tuple(tensor.shape), _is_trained(name)) for name, tensor in weights.items())
    parts = {name.rpartition(".")[0]: "" for name in weights if "." in name}
    return Outside(
        type(target), called=target.__call__, weights=shapes, parts=parts, settings=numbers_of(target)
    )


class LinenCallee(JaxCallee):
    """A module that is applied to parameters. It is never changed: what a call would update is dropped."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._compiled = Compiled()
        self._module = module
        self._takes = inspect.signature(module.__call__).parameters
        self._made: dict[tuple[int, ...], dict[str, Tensor]] = {}  # widths of the inputs -> its variables

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Apply it to its own variables for inputs of this width, but for those that are given.

        Raises: ValueError for a weight that it does not have.
        """
        kwargs = {**self._mode(asked.training, kwargs), **kwargs}
        own = in_dtype(self._variables(args, kwargs), asked.dtype)
        key = f"{asked.seed} {asked.settings}"
        return call_with_arrays(self._run(asked), (args, kwargs, replaced(own, weights)), self._compiled, key)

    def weights(self) -> dict[str, Tensor]:
        """Return its variables for tokens of a likely width, else those of the first call."""
        inputs = likely_inputs(self._module.__call__, vars(self._module))
        try:
            return dict(self._variables(inputs, self._mode(False, {})))
        except Exception:  # it takes other inputs: they are made at the first call
            return dict(next(iter(self._made.values()), {}))

    def _run(self, asked: Call) -> Run:
        import jax

        module = self._module.clone(**asked.settings) if asked.settings else self._module

        def run(args: Any, kwargs: Any, weights: dict[str, Any]) -> Any:
            variables = _nested(weights)
            changing = [name for name in variables if name != "params"]
            random = {"dropout": jax.random.key(asked.seed)}
            result = module.apply(variables, *args, **kwargs, rngs=random, mutable=changing or False)
            return result[0] if changing else result

        return run

    @torch.no_grad()
    def _variables(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
        import jax
        from flax.core.meta import unbox

        named = [value for name, value in kwargs.items() if not re.search("mask|bias", name)]
        widths = tuple(one.shape[-1] for one in (*args, *named) if isinstance(one, Tensor) and one.dim())
        if widths not in self._made:
            key = jax.random.key(0)

            def make(args: Any, kwargs: Any, _: Any) -> Any:
                return unbox(self._module.init(key, *args, **kwargs))

            self._made[widths] = _flat(call_with_arrays(make, (args, kwargs, {})))
        return self._made[widths]

    def _mode(self, training: bool, given: dict[str, Any]) -> dict[str, Any]:
        """Say whether it trains, unless the caller or a field of the module has said so."""
        free = _TRAINING.keys() & self._takes.keys() - given.keys()
        unsaid = [name for name in free if getattr(self._module, name, None) is None]
        return {name: _TRAINING[name] == training for name in unsaid}


def _named(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Tensor]]:
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield from _named(value, f"{path}{name}.")
        else:
            yield path + name, value


def _flat(variables: Mapping[str, Any]) -> dict[str, Tensor]:
    """Name leaves "query.kernel"; what is not in "params" keeps its collection: "batch_stats/norm.mean"."""
    collections = (_named(tree, "" if name == "params" else f"{name}/") for name, tree in variables.items())
    return dict(leaf for collection in collections for leaf in collection)


def _nested(weights: dict[str, Any]) -> dict[str, Any]:
    """Undo ``_flat``."""
    variables: dict[str, Any] = {}
    for name, value in weights.items():
        collection, _, path = name.rpartition("/")
        *parents, last = path.split(".")
        place = variables.setdefault(collection or "params", {})
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return variables


def _is_trained(name: str) -> bool:
    return "/" not in name
