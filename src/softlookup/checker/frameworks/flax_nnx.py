"""flax.nnx modules, which hold their parameters and are rebuilt from them for every call."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from softlookup.checker.callee import Callee, Outside, in_dtype, replaced
from softlookup.checker.calls import Call, Weight
from softlookup.checker.inside import numbers_of
from softlookup.checker.jax_calls import Compiled, JaxCallee, call_with_arrays, from_jax
from softlookup.checker.written_with import is_a


def recognises(target: Any) -> bool:
    """Say whether this is a module that can be called, or a class of one."""
    return is_a(target, "flax.nnx") and callable(target)


def callee(target: Any) -> Callee:
    """Return how it is called."""
    return NnxCallee(target)


def outside(target: Any) -> Outside:
    """Return its class; of an instance, its weights, its parts and their settings."""
    if inspect.isclass(target):
        return Outside(target)
    from flax import nnx

    paths = {".".join(map(str, path)): part for path, part in nnx.iter_modules(target)}
    return Outside(
        type(target),
        called=target.__call__,
        weights=tuple(
            Weight(name, tuple(value.shape), trained) for name, value, trained in _variables(target)
        ),
        parts={path: type(part).__name__ for path, part in paths.items() if path},
        settings={
            f"{path}.{name}".lstrip("."): value
            for path, part in paths.items()
            for name, value in numbers_of(part).items()
        },
    )


class NnxCallee(JaxCallee):
    """A module, of which every call gets a copy."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self._compiled = Compiled()
        self._module = module

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call a copy with its own weights, but for those that are given.

        Raises: ValueError for a weight that it does not have.
        """
        own = in_dtype(self.weights(), asked.dtype)

        def run(args: Any, kwargs: Any, weights: dict[str, Any]) -> Any:
            return self._copy(weights, asked)(*args, **kwargs)

        key = f"{asked.seed} {asked.training} {asked.settings}"
        return call_with_arrays(run, (args, kwargs, replaced(own, weights)), self._compiled, key)

    def weights(self) -> dict[str, Tensor]:
        """Return its parameters, and what else it holds of real numbers."""
        return {name: from_jax(value) for name, value, _ in _variables(self._module)}

    def _copy(self, weights: dict[str, Any], asked: Call) -> Any:
        from flax import nnx

        copy = nnx.clone(self._module)
        copy.train() if asked.training else copy.eval()
        nnx.reseed(copy, default=asked.seed, dropout=asked.seed)
        for path, part in nnx.iter_modules(copy):
            if getattr(part, "decode", False) is None:  # it insists on an answer: no cache
                part.decode = False
            for name, value in asked.settings.items():
                owner, _, attribute = name.rpartition(".")
                if owner == ".".join(map(str, path)):
                    setattr(part, attribute, value)
        graph, state = nnx.split(copy)
        flat = dict(nnx.to_flat_state(state))
        for path, variable in flat.items():
            name = ".".join(map(str, path))
            if name in weights:
                flat[path] = variable.replace(weights[name])
        return nnx.merge(graph, nnx.from_flat_state(flat))


def _variables(module: Any) -> Iterator[tuple[str, Any, bool]]:
    """Yield name, array, and whether it is trained, for everything that holds real numbers."""
    import jax
    from flax import nnx

    for path, variable in nnx.to_flat_state(nnx.state(module)):
        value = variable[...] if isinstance(variable, nnx.Variable) else variable
        if isinstance(value, jax.Array) and jax.numpy.issubdtype(value.dtype, jax.numpy.floating):
            yield ".".join(map(str, path)), value, isinstance(variable, nnx.Param)
