"""Check what users pass to a mask, once for all rules: say what was expected and what came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softlookup.terms import Corner, SoftlookupError

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


def whole_number(name: str, value: Any, *, at_least: int) -> int:
    """Return a whole number that is not too small.

    Raises: SoftlookupError for another type (True is not a number here) or a smaller number.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise _refused(name, f"a whole number of at least {at_least}", f"{type(value).__name__} {value!r}")
    if value < at_least:
        raise _refused(name, f"a whole number of at least {at_least}", str(value))
    return value


def choice(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of the choices.

    Raises: SoftlookupError for anything else.
    """
    if value not in choices:
        raise _refused(name, " or ".join(map(repr, choices)), repr(value))
    return str(value)


def corner_name(value: Any) -> Corner:
    """Return where the causal diagonal starts, "top-left" or "bottom-right".

    Raises: SoftlookupError for anything else.
    """
    return (
        "top-left" if choice("corner", value, ("top-left", "bottom-right")) == "top-left" else "bottom-right"
    )


def whole_numbers(name: str, value: Any) -> tuple[int, ...]:
    """Return a list, tuple or 1-d integer tensor as a tuple of ints that are 0 or more.

    Raises: SoftlookupError for another type or number of axes, an empty list, or a negative number.
    """
    if isinstance(value, Tensor):
        if value.dim() != 1 or value.dtype not in _INTEGERS:
            raise _refused(name, "integers [B]", f"{_dtype(value)} {list(value.shape)}")
        value = value.tolist()
    if not isinstance(value, (list, tuple)) or not value:
        raise _refused(name, "a non-empty list, tuple or tensor of integers", repr(value))
    return tuple(whole_number(f"{name}[{index}]", number, at_least=0) for index, number in enumerate(value))


def per_sample(name: str, value: Any) -> int | tuple[int, ...]:
    """Return one number for all samples as an int, or one for each sample as a tuple of B ints.

    Raises: SoftlookupError when ``whole_number`` or ``whole_numbers`` refuses it.
    """
    if isinstance(value, int):
        return whole_number(name, value, at_least=0)
    return whole_numbers(name, value)


def ids(name: str, value: Any) -> Tensor:
    """Return ids [B, T] as a copy of our own: a mask does not change when the caller's tensor does.

    Raises: SoftlookupError when it is no integer tensor with two axes.
    """
    if not isinstance(value, Tensor):
        raise _refused(
            name, "an integer tensor [B, T]", f"{type(value).__name__} {value!r}", "torch.tensor(...)"
        )
    if value.dtype not in _INTEGERS:
        raise _refused(name, "an integer tensor [B, T]", f"{_dtype(value)} {list(value.shape)}")
    if value.dim() != 2:
        hint = f"{name}[None] for a single sample" if value.dim() == 1 else ""
        raise _refused(name, "an integer tensor [B, T]", f"{_dtype(value)} {list(value.shape)}", hint)
    return value.detach().clone()


def within(name: str, value: int | tuple[int, ...], *, q_len: int, k_len: int) -> None:
    """Do nothing when no number counts more keys than there are.

    Raises: SoftlookupError that names the sample.
    """
    for sample, number in enumerate((value,) if isinstance(value, int) else value):
        if number > k_len:
            which = name if isinstance(value, int) else f"{name}[{sample}]"
            raise SoftlookupError(
                f"masks: {which} counts more keys than there are.",
                expected=f"at most T_k = {k_len}",
                got=str(number),
                sizes={"T_q": q_len, "T_k": k_len},
            )


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _refused(name: str, expected: str, got: str, hint: str = "") -> SoftlookupError:
    return SoftlookupError(f"masks: `{name}` cannot be used.", expected=expected, got=got, hint=hint)
