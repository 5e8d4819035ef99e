"""Calls of JAX functions with tensors: arrays go in, tensors come back, and gradients pass through."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.arrays import from_arrays, from_numpy, to_numpy_with_bfloat16
from softlookup.checker.calling import plain
from softlookup.checker.calls import Call

#: (args, kwargs, weights), all arrays -> what the target returns
Run = Callable[[tuple[Any, ...], dict[str, Any], dict[str, Any]], Any]


_NOT_RUN = object()


class JaxCallee:
    """A function of arrays, without weights."""

    differentiable = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        # An instance may keep something of a call, which must not be what the compiler handed in.
        self._compiled = Compiled() if inspect.isfunction(function) else None

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it with arrays; the arrays that come back become tensors."""

        def run(args: Any, kwargs: Any, weights: Any) -> Any:
            return self._function(*args, **kwargs)

        return call_with_arrays(run, (args, kwargs, {}), self._compiled)

    def weights(self) -> dict[str, Tensor]:
        """It has none."""
        return {}

    def device(self) -> torch.device:
        """Tensors are handed over in main memory."""
        return torch.device("cpu")


class Compiled:
    """What was compiled for earlier calls: as a whole, which is faster than one operation at a time."""

    def __init__(self) -> None:
        self._functions: dict[str, Any] = {}

    def __call__(self, run: Run, given: Any, key: str) -> Any:
        """Run it compiled; raises what it raises, and more: not everything can be compiled."""
        import jax

        tensors: list[Tensor] = []
        form = plain(given, lambda tensor: _Place(tensors, tensor), keep=True)
        key = f"{key} {form!r}"
        if key not in self._functions:
            self._functions[key] = jax.jit(lambda arrays: run(*_filled(form, arrays)))
        return self._functions[key]([*map(to_jax, tensors)])


class _Place:
    """Where a tensor stood among the arguments."""

    def __init__(self, tensors: list[Tensor], tensor: Tensor) -> None:
        self.number = len(tensors)
        tensors.append(tensor)

    def __repr__(self) -> str:
        return f"<{self.number}>"


def _filled(form: Any, arrays: list[Any]) -> Any:
    if isinstance(form, _Place):
        return arrays[form.number]
    if isinstance(form, (list, tuple)):
        return type(form)(_filled(item, arrays) for item in form)
    if isinstance(form, dict):
        return {name: _filled(item, arrays) for name, item in form.items()}
    return form


def to_jax(tensor: Tensor) -> Any:
    """Return a JAX array of the same dtype, bfloat16 included."""
    import jax.numpy as jnp

    return jnp.asarray(to_numpy_with_bfloat16(tensor))


def from_jax(array: Any) -> Tensor:
    """Return a tensor with the values of a JAX array."""
    return from_numpy(array)


def call_with_arrays(
    run: Run,
    given: tuple[tuple[Any, ...], dict[str, Any], dict[str, Tensor]],
    compiled: Compiled | None = None,
    key: str = "",
) -> Any:
    """Run it with every tensor as an array; for those that need a gradient, through ``jax.vjp``.

    compiled: where to keep what is compiled; None when it must not be
    key: tells apart what is run in other ways than by its arguments
    """
    import jax

    tensors: list[Tensor] = []
    plain(given, tensors.append, keep=True)
    asked = [tensor for tensor in tensors if tensor.requires_grad] if torch.is_grad_enabled() else []
    # How tensors become arrays is no step of the target.
    unseen = torch._C.DisableTorchFunction()
    with unseen, _in_double(any(tensor.dtype == torch.float64 for tensor in tensors)):
        if asked:
            return _with_gradients(run, given, asked)
        result = _NOT_RUN
        if compiled is not None:
            with contextlib.suppress(Exception):  # what is wrong with it shows below
                result = compiled(run, given, key)
        if result is _NOT_RUN:
            result = run(*plain(given, to_jax, keep=True))
        return from_arrays(result, lambda item: isinstance(item, jax.Array), from_jax)


def _with_gradients(run: Run, given: Any, asked: list[Tensor]) -> Any:
    """Run it as one operation of autograd, whose backward pass is JAX's own."""
    import jax

    form: Any = None
    floating: list[bool] = []

    def outputs(*arrays: Any) -> tuple[list[Any], list[Any]]:
        nonlocal form, floating
        stands_for = {id(tensor): array for tensor, array in zip(asked, arrays, strict=True)}
        arranged = plain(given, lambda t: stands_for[id(t)] if id(t) in stands_for else to_jax(t), keep=True)
        leaves, form = jax.tree.flatten(run(*arranged))
        floating = [jax.numpy.issubdtype(jax.numpy.result_type(leaf), jax.numpy.floating) for leaf in leaves]
        paired = list(zip(leaves, floating, strict=True))
        return [leaf for leaf, is_float in paired if is_float], [
            leaf for leaf, is_float in paired if not is_float
        ]

    values, pull, others = jax.vjp(outputs, *map(to_jax, asked), has_aux=True)
    double = any(tensor.dtype == torch.float64 for tensor in asked)

    def backward(cotangents: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        with _in_double(double):
            return tuple(map(from_jax, pull([*map(to_jax, cotangents)])))

    tensors = iter(_Pulled.apply(backward, [*map(from_jax, values)], *asked))  # type: ignore[no-untyped-call]
    rest = iter([*map(from_jax, others)])
    return jax.tree.unflatten(form, [next(tensors if is_float else rest) for is_float in floating])


class _Pulled(torch.autograd.Function):
    """Values that were computed elsewhere, with a backward pass of their own."""

    @staticmethod
    def forward(ctx: Any, backward: Any, values: list[Tensor], *_: Tensor) -> tuple[Tensor, ...]:
        ctx.pull = backward
        return tuple(values)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        return None, None, *ctx.pull(cotangents)


@contextlib.contextmanager
def _in_double(wanted: bool) -> Iterator[None]:
    """JAX has float64 only where it is switched on."""
    import jax

    if not wanted:
        yield
        return
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        yield
