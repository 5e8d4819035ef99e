"""Tensors of torch become arrays of another library, and back; the dtype stays what it was."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor


def to_numpy(tensor: Tensor) -> Any:
    """Return a NumPy array that shares the tensor's memory, so that a change in place is seen.

    Raises: TypeError for bfloat16, which NumPy does not have.
    """
    if tensor.dtype == torch.bfloat16:
        raise TypeError("NumPy has no bfloat16: expected float64, float32, float16, integers or booleans")
    return tensor.detach().cpu().numpy()


def to_numpy_with_bfloat16(tensor: Tensor) -> Any:
    """Return a NumPy array; bfloat16 as the dtype of ``ml_dtypes``, which comes with JAX.

    Raises: TypeError for bfloat16 where ``ml_dtypes`` is not installed.
    """
    if tensor.dtype != torch.bfloat16:
        return to_numpy(tensor)
    try:
        from ml_dtypes import bfloat16
    except ImportError:
        raise TypeError("NumPy has no bfloat16: pip install ml_dtypes") from None
    return to_numpy(tensor.contiguous().view(torch.int16)).view(bfloat16)


def from_numpy(array: Any) -> Tensor:
    """Return a tensor with the values of a NumPy array or scalar, in memory of its own."""
    import numpy as np

    copied = np.array(array, order="C")  # torch takes no negative strides and nothing that is read-only
    if copied.dtype.name == "bfloat16":
        return torch.from_numpy(copied.view(np.int16)).view(torch.bfloat16)
    return torch.as_tensor(copied)


def from_arrays(value: Any, is_array: Callable[[Any], bool], convert: Callable[[Any], Tensor]) -> Any:
    """Return a result with every array in it converted; a dataclass becomes a dict."""
    if is_array(value):
        return convert(value)
    if isinstance(value, (list, tuple)):
        inner = [from_arrays(item, is_array, convert) for item in value]
        return inner if isinstance(value, list) else tuple(inner)
    if isinstance(value, Mapping):
        return {key: from_arrays(item, is_array, convert) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return from_arrays(held, is_array, convert)
    return value
