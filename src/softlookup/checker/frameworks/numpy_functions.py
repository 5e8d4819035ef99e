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

        Raises: TypeError for bfloat16, and where gradients are asked for.
        """
        if asked.backward is not None:
            raise TypeError("NumPy computes no gradients")
        import numpy as np

        given = plain((args, kwargs), to_numpy, keep=True)
        state = np.random.get_state()
        np.random.seed(asked.seed % 2**32)
        try:
            result = self._function(*given[0], **given[1])
        finally:
            np.random.set_state(state)
        dtypes = {tensor.dtype for tensor in (*args, *kwargs.values()) if isinstance(tensor, Tensor)}
        widest = max(
            (dtype for dtype in dtypes if dtype.is_floating_point), key=lambda d: d.itemsize, default=None
        )

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
