"""NumPy: functions, methods, and classes whose instances can be called."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.checker.arrays import from_arrays, from_numpy, to_numpy
from softlookup.checker.callee import Callee, Outside, module_of
from softlookup.checker.calling import plain
from softlookup.checker.calls import Call
from softlookup.checker.written_with import library_of


def recognises(target: Any) -> bool:
    """Say whether its code computes with NumPy and with nothing else."""
    is_torch = (inspect.isclass(target) and issubclass(target, nn.Module)) or module_of(target) is not None
    return callable(target) and not is_torch and library_of(target) == "numpy"


def callee(target: Any) -> Callee:
    """Return how it is called: with arrays that share the tensors' memory."""
    return NumpyCallee(target)


def outside(target: Any) -> Outside:
    """Return the function, or the class with its ``__call__``."""
    written_down = inspect.isroutine(target) or inspect.isclass(target)
    return Outside(target if written_down else type(target))


class NumpyCallee:
    """A function on arrays. Random numbers that it draws come from NumPy's one global generator."""

    differentiable = False

    def __init__(self, function: Any) -> None:
        self._function = function

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Call it with arrays; the arrays that come back become tensors.

        Raises: TypeError in half precision, and where gradients are asked for.
        """
        if any(tensor.dtype.itemsize < 4 for tensor in _floating(args, kwargs)):
            # np.einsum adds up in float16 where torch adds up in float32: a trait of NumPy, and no bug.
            raise TypeError("half precision is not judged in NumPy: expected float32 or float64")
        if asked.backward is not None:
            raise TypeError("NumPy computes no gradients")
        with torch._C.DisableTorchFunction():  # how tensors become arrays is no step of the target
            return self._called(args, kwargs, asked.seed)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any], seed: int) -> Any:
        import numpy as np

        given = plain((args, kwargs), to_numpy, keep=True)
        state = np.random.get_state()
        np.random.seed(seed % 2**32)
        try:
            with np.errstate(all="ignore"):  # the questions overflow on purpose
                result = self._function(*given[0], **given[1])
        finally:
            np.random.set_state(state)
        dtypes = {tensor.dtype for tensor in _floating(args, kwargs)}
        widest = max(dtypes, key=lambda dtype: dtype.itemsize, default=None)

        def back(array: Any) -> Tensor:
            # One np.sqrt(8) makes float64 of all that follows: the answer is that of the inputs' dtype.
            tensor = from_numpy(array)
            return tensor.to(widest) if widest and tensor.dtype == torch.float64 else tensor

        return from_arrays(result, lambda item: isinstance(item, (np.ndarray, np.generic)), back)

    def weights(self) -> dict[str, Tensor]:
        """It has none."""
        return {}

    def device(self) -> torch.device:
        """Arrays lie in main memory."""
        return torch.device("cpu")


def _floating(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    given = [value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]
    return [tensor for tensor in given if tensor.is_floating_point()]
