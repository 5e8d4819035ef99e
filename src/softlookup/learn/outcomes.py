"""What a call came to - a value, or an error - and whether two of them are the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.calls import Answer, Call

_MOST_SIDE = 8  # of a matrix that is drawn
_MOST_SHOWN = 16  # numbers of a tensor that is written out


class Given:
    """The arguments of one call: ``Given(q, k, v, scale=0.5)``.

    ``training=True`` puts a module in training mode; ``weights`` are its parameters for this call, by name.
    """

    def __init__(
        self, *args: Any, training: bool = False, weights: Mapping[str, Tensor] | None = None, **kwargs: Any
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.training = training
        self.weights = dict(weights or {})

    def call(self) -> Call:
        """Return it as a call of the learner's code, with every torch function noted."""
        return Call(self.args, self.kwargs, record=True, training=self.training, weights=self.weights)


@dataclass(frozen=True)
class Outcome:
    """A value, or the class of the error that came instead."""

    value: Any = None
    error: str = ""  # e.g. "ValueError"
    message: str = field(default="", compare=False)
    line: int | None = field(default=None, compare=False)

    @property
    def missing(self) -> bool:
        """True where nothing was written yet."""
        return self.error == "NotImplementedError" or (not self.error and self.value in (None, ...))


def outcome_of(answer: Answer) -> Outcome:
    """Return what the learner's call came to."""
    if answer.failure:
        return Outcome(None, answer.failure.kind, answer.failure.message, answer.failure.line)
    return Outcome(answer.result)


def outcome_here(function: Callable[..., Any], given: Given) -> Outcome:
    """Return what a function of ours comes to; its arguments are copies, so that it may write into them."""
    try:
        args = [_copied(value) for value in given.args]
        return Outcome(function(*args, **{name: _copied(value) for name, value in given.kwargs.items()}))
    except Exception as error:
        kind = (
            "ValueError" if isinstance(error, ValueError) else type(error).__name__
        )  # as SoftlookupError is
        return Outcome(None, kind, str(error))


def _copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


def difference(yours: Outcome, right: Outcome, tolerance: float) -> str:
    """Return how they differ: "error", "raises", "type", "shape", "dtype", "finite", "values"; "" where not.

    "error": an error was due and did not come, or another one came. "raises": one came that was not due.
    """
    if right.error:
        return "" if _same_error(yours.error, right.error) else "error"
    return "raises" if yours.error else _value_difference(yours.value, right.value, tolerance)


def _same_error(one: str, other: str) -> bool:
    """Say whether both are one error; a bare Exception of a mistake stands for all but ValueError."""
    any_but_one = "Exception" in {one, other} and not {"", "ValueError"} & {one, other}
    return one == other or any_but_one


def _value_difference(yours: Any, right: Any, tolerance: float) -> str:
    if isinstance(right, Tensor) and not right.dim():  # a number, in whichever dress
        right = right.item()
    if isinstance(right, Tensor):
        return _tensor_difference(yours, right, tolerance)
    if isinstance(right, (tuple, list)):
        if not isinstance(yours, (tuple, list)) or len(yours) != len(right):
            return "type"
        parts = (_value_difference(a, b, tolerance) for a, b in zip(yours, right, strict=True))
        return next((part for part in parts if part), "")
    if isinstance(yours, Tensor) and yours.numel() == 1:
        yours = yours.item()
    if isinstance(right, float):
        if isinstance(yours, bool) or not isinstance(yours, (int, float)):
            return "type"
        same = math.isclose(yours, right, rel_tol=tolerance, abs_tol=tolerance)
        return "" if same or (math.isnan(yours) and math.isnan(right)) else "values"
    return "" if type(yours) is type(right) and yours == right else "values"


def _tensor_difference(yours: Any, right: Tensor, tolerance: float) -> str:
    if not isinstance(yours, Tensor):
        return "type"
    if yours.shape != right.shape:
        return "shape"
    if _family(yours) != _family(right):
        return "dtype"
    if right.dtype == torch.bool:
        return "" if torch.equal(yours, right) else "values"
    if right.isfinite().all() and not yours.isfinite().all():
        return "finite"
    same = torch.allclose(yours.double(), right.double(), rtol=tolerance, atol=tolerance, equal_nan=True)
    # What is exactly 0 in the right answer is hidden there: almost 0 is not enough.
    hidden_seen = right.is_floating_point() and bool(((right == 0) & (yours != 0)).any())
    return "" if same and not hidden_seen else "values"


def _family(tensor: Tensor) -> str:
    return "bool" if tensor.dtype == torch.bool else "float" if tensor.is_floating_point() else "int"


def drawn(yours: Outcome, right: Outcome) -> dict[str, Any]:
    """Return the evidence that shows both: two small matrices where they have one shape, else words."""
    mine, theirs = _first_tensors(yours.value, right.value)
    if mine is not None and theirs is not None and mine.shape == theirs.shape and theirs.numel():
        where = _first_slice_that_differs(mine, theirs)
        return {"output": {"yours": _matrix(mine[where]), "right": _matrix(theirs[where])}}
    return {"yours": _words(yours), "right": _words(right)}


def asked(given: Given) -> str:
    """Return the arguments of a call in words, small tensors with their numbers."""
    named = {str(i): value for i, value in enumerate(given.args)} | given.kwargs
    return ", ".join(f"{'' if key.isdigit() else key + '='}{_shown(value)}" for key, value in named.items())


def _shown(value: Any) -> str:
    if isinstance(value, Tensor) and value.numel() <= _MOST_SHOWN and set(value.shape[:-2]) <= {1}:
        digits = 2 if value.is_floating_point() else 0
        rows = value.reshape(-1, value.shape[-1] if value.dim() else 1).tolist()
        text = "; ".join(" ".join(f"{number:.{digits}f}" for number in row) for row in rows)
        return f"[{text}]"
    return _value_words(value)


def _first_tensors(mine: Any, theirs: Any) -> tuple[Tensor | None, Tensor | None]:
    """Return the two tensors that differ first."""
    if isinstance(theirs, (tuple, list)) and isinstance(mine, (tuple, list)) and len(mine) == len(theirs):
        pairs = [_first_tensors(a, b) for a, b in zip(mine, theirs, strict=True)]
        found = [(a, b) for a, b in pairs if a is not None and b is not None]
        differing = [(a, b) for a, b in found if _tensor_difference(a, b, 1e-5)]
        return next(iter(differing or found), (None, None))
    if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
        return mine, theirs
    return None, None


def _first_slice_that_differs(mine: Tensor, theirs: Tensor) -> tuple[int, ...]:
    """Return the leading indices of the first matrix in which they differ."""
    leading = max(theirs.dim() - 2, 0)
    unequal = (mine != theirs).nonzero()
    return tuple(int(i) for i in unequal[0][:leading]) if len(unequal) else (0,) * leading


def _matrix(tensor: Tensor) -> list[list[float]]:
    matrix = tensor.double().reshape(-1, tensor.shape[-1]) if tensor.dim() else tensor.double().reshape(1, 1)
    return [[float(x) for x in row[: _MOST_SIDE + 1]] for row in matrix[: _MOST_SIDE + 1]]


def _words(outcome: Outcome) -> str:
    return outcome.error or _value_words(outcome.value)


def _value_words(value: Any) -> str:
    if isinstance(value, Tensor) and not value.dim():
        value = value.item()
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return ", ".join(_value_words(item) for item in value)
    if isinstance(value, float):
        digits = f"{value:.6g}"
        return f"{digits}.0" if digits.lstrip("-").isdigit() else digits  # 4.0 is not the integer 4
    return repr(value)
