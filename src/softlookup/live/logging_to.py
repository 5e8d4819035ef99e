"""Numbers of a watch in the logs that a training run keeps anyway: TensorBoard, W&B, MLflow, a callable."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from softlookup.live.numbers_of_heads import WORSE, head_numbers
from softlookup.live.record import Record
from softlookup.terms import SoftlookupError

#: Takes numbers by name, and the step.
Logger = Callable[[Mapping[str, float], int], None]

_AT_ONCE = 1000  # numbers that MLflow's server takes in one request
_STEP = "attention/step"


def make_logger(target: Any) -> Logger:
    """Return a function (numbers, step) that logs to ``target``, known by what it can do.

    target: has ``log_metrics(dict, step=)``: mlflow itself, a logger of Lightning, a Comet experiment
        has ``add_scalar(tag, value, step)``: a SummaryWriter of TensorBoard
        has ``log(dict, step=)``: a run of W&B. Its own step only ever grows and belongs to the training
        loop, so where it has ``define_metric`` the step is logged as "attention/step", the axis of the rest
        a callable (dict, step)

    A target that raises does not stop a training: the first time is told as a warning, all are passed over.

    Raises: SoftlookupError for anything else.

    >>> make_logger(lambda numbers, step: print(step, dict(numbers)))({"attention/self_mass": 0.5}, 3)
    3 {'attention/self_mass': 0.5}
    """
    if not isinstance(target, type):
        for fits, write in _WAYS:
            if fits(target):
                return _guarded(write(target), target)
    raise SoftlookupError(
        "make_logger: nothing can be logged to this.",
        expected="a SummaryWriter, a W&B run, mlflow, a logger of Lightning or a function (numbers, step)",
        got=f"the class {target.__name__}" if isinstance(target, type) else f"a {type(target).__name__}",
        hint=_hint(target),
    )


def flat_numbers(records: Iterable[Record], *, per_head: bool = False) -> dict[str, float]:
    """Return the numbers of the records of one step as ``attention/<layer>/<statistic>``.

    Of several calls of a layer, and over its heads: ``<statistic>/mean`` is the mean; ``<statistic>/max``
    the largest, where large is the bad direction, and ``<statistic>/min`` the smallest where small is
    (``entropy_share``). Per head when asked: ``<statistic>/head_3``, the mean over the calls. Counts are
    added up. What was not measured, NaN, is left out. The layer "" is left out of the name.

    >>> flat_numbers([])
    {}
    """
    layers: dict[tuple[str, int], list[dict[str, Tensor]]] = {}
    for record in records:
        place = record.call.layer, record.statistics.queries.shape[1]
        layers.setdefault(place, []).append(head_numbers(record.statistics.over_batch()))
    flat: dict[str, float] = {}
    for (layer, _), calls in layers.items():
        for name in WORSE:
            rows = [numbers[name] for numbers in calls if name in numbers]
            if rows:
                start = "/".join(["attention", *([layer] if layer else []), name])
                flat |= _of_one(start, name, torch.cat(rows), per_head)
    return {name: value for name, value in flat.items() if not math.isnan(value)}


def _of_one(start: str, name: str, values: Tensor, per_head: bool) -> dict[str, float]:
    """Return what is logged of one number [calls, H] of a layer."""
    if name.endswith("_count"):
        heads = values.sum(0)
        flat = {start: values.sum().item()}
    else:
        heads = values.nanmean(0)
        there = values[~values.isnan()]
        flat = {f"{start}/mean": there.mean().item()}
        if WORSE[name] == "high" and len(there):
            flat[f"{start}/max"] = there.max().item()
        if WORSE[name] == "low" and len(there):
            flat[f"{start}/min"] = there.min().item()
    if per_head:
        flat |= {f"{start}/head_{head}": value for head, value in enumerate(heads.tolist())}
    return flat


def _has(name: str) -> Callable[[Any], bool]:
    return lambda target: callable(getattr(target, name, None))


def _logs_steps(target: Any) -> bool:
    """Say whether there is a ``log`` with a step: many things have a ``log`` that means something else."""
    try:
        return "step" in inspect.signature(target.log).parameters
    except (AttributeError, TypeError, ValueError):
        return False


def _to_log_metrics(target: Any) -> Logger:
    def write(numbers: Mapping[str, float], step: int) -> None:
        items = list(numbers.items())
        for start in range(0, len(items), _AT_ONCE):
            target.log_metrics(dict(items[start : start + _AT_ONCE]), step=step)

    return write


def _to_summary_writer(target: Any) -> Logger:
    def write(numbers: Mapping[str, float], step: int) -> None:
        for name, value in numbers.items():
            target.add_scalar(name, value, step)

    return write


def _to_run(target: Any) -> Logger:
    defined: list[bool] = []

    def write(numbers: Mapping[str, float], step: int) -> None:
        if not _has("define_metric")(target):
            target.log(dict(numbers), step=step)
            return
        if not defined:
            target.define_metric("attention/*", step_metric=_STEP)
            defined.append(True)
        target.log({_STEP: step, **numbers})

    return write


_WAYS: tuple[tuple[Callable[[Any], bool], Callable[[Any], Logger]], ...] = (
    (_has("log_metrics"), _to_log_metrics),
    (_has("add_scalar"), _to_summary_writer),
    (_logs_steps, _to_run),
    (callable, lambda target: target),
)


def _guarded(write: Logger, target: Any) -> Logger:
    told: list[bool] = []

    def guarded(numbers: Mapping[str, float], step: int) -> None:
        try:
            write(numbers, step)
        except Exception as error:  # whatever it is, the training is worth more
            if not told:
                told.append(True)
                warnings.warn(
                    f"softlookup: logging step {step} to a {type(target).__name__} failed "
                    f"({type(error).__name__}: {error}); later failures are not told.",
                    RuntimeWarning,
                    stacklevel=2,
                )

    return guarded


def _hint(target: Any) -> str:
    if isinstance(target, type):
        return f"give an instance: {target.__name__}(...)"
    if callable(getattr(target, "log_batch", None)):
        return "MlflowClient wants a run for each number: give mlflow itself, with a run that is active"
    return "lambda numbers, step: ... with numbers a dict of floats"
