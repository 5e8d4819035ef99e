"""What an intervention changes: one number an input, against the same input unchanged, and how sure it is."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from softlookup.experiments.intervening import intervene
from softlookup.experiments.metrics import Metric, read_metric
from softlookup.experiments.one_input import Input, changed_input, read_inputs
from softlookup.experiments.resampling import Estimate, Resampling, estimate, interval_words, p_words
from softlookup.terms import SoftlookupError

_NO_TEST = "a distance is never negative, so that a test against 0 says nothing: compare with a control"


@dataclass(frozen=True)
class Effect:
    """What interventions change in what is measured, over some inputs.

    interventions, control: what was done, in words;  metric: what was measured, in words
    unchanged, values: one number an input: measured without the interventions, and how much they add to it
    estimate: of the mean of the values
    control_values, against_control: the same of the control, and of the values less those; None without one
    noise: the difference between two unchanged runs of the first input
    """

    interventions: tuple[str, ...]
    metric: str
    unchanged: tuple[float, ...]
    values: tuple[float, ...]
    estimate: Estimate
    noise: float
    control: tuple[str, ...] = ()
    control_values: tuple[float, ...] | None = None
    against_control: Estimate | None = None

    @property
    def mean(self) -> float:
        """The mean over inputs."""
        return self.estimate.mean

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the mean; None where there are too few inputs for one."""
        return self.estimate.interval

    @property
    def level(self) -> float:
        """The level of the interval."""
        return self.estimate.level

    @property
    def p_value(self) -> float | None:
        """The p-value of a mean of 0; of a distance, that it is the same as with the control."""
        counted = self.estimate if self.against_control is None else self.against_control
        return counted.p_value

    @property
    def n(self) -> int:
        """How many inputs there were."""
        return len(self.values)

    @property
    def words(self) -> str:
        """What came out, in a few sentences that claim no more than was seen."""
        parts = [_sentence(self.estimate, self.n)]
        if self.against_control is not None and self.control_values is not None:
            mean = sum(self.control_values) / self.n
            parts.append(f"The control changes it by {mean:+.4g}. {_difference(self.against_control)}")
        elif not self.estimate.p_value and self.estimate.p_how == _NO_TEST:
            parts.append("A distance is never negative: give a control to compare with.")
        if self.noise:
            parts.append(f"Two unchanged runs differ by {self.noise:.2g}.")
        return " ".join(parts)

    def __str__(self) -> str:
        done = "; ".join(self.interventions)
        return f"{done}\nmeasured: {self.metric}\n{self.words}"

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "mean": self.mean, "p_value": self.p_value, "n": self.n, "words": self.words}


def effect(
    model: nn.Module,
    inputs: Any,
    interventions: Any,
    *,
    metric: Any = "logit_difference",
    control: Any = (),
    resampling: Resampling | None = None,
) -> Effect:
    """Measure what interventions change, each input against itself unchanged.

    inputs: a list, one element an input of one sample: ids [1, T], a tuple or a mapping of arguments
    interventions: one, or several that act together; a function of an input changes the input itself, e.g.
        ``lambda inputs: change_token(inputs, 3, 42)``
    control: likewise, what should change less, such as the same done to another head: the difference to it
        is tested as well
    metric: "logit_difference", "loss", "kl", "total_variation", "change"; a function (output, input) ->
        number; or what ``softlookup.experiments.metrics`` makes, e.g. ``metrics.logit_difference(target=7)``
    resampling: level of the intervals, number of resamples, seed

    The model runs as it is, without gradients, twice an input. Intervals and p-values are over inputs, which
    should be drawn alike and independently; with one input there are none.

    Raises: SoftlookupError when an intervention meets no call, the metric does not fit the output, or two
        unchanged runs of a model in training mode differ.

    >>> import torch, softlookup
    >>> from softlookup.experiments import ablate, effect
    >>> _ = torch.manual_seed(0)
    >>> model = softlookup.MultiHeadAttention(8, num_heads=2).eval()
    >>> inputs = [torch.randn(1, 5, 8) for _ in range(8)]
    >>> found = effect(model, inputs, ablate(layer="*", head=1), metric="change")
    >>> found.n, 0 < found.interval[0] < found.mean < found.interval[1]
    (8, True)
    """
    measured, given = read_metric(metric), read_inputs(inputs)
    how = resampling or Resampling()
    doing, beside = _several(interventions), _several(control)
    if not doing:
        raise SoftlookupError(
            "effect: nothing is to be done.", expected="at least one intervention", got="none"
        )
    unchanged, values, control_values = [], [], []
    noise = 0.0
    with torch.no_grad(), intervene(model):  # whose replacements stay in place from run to run
        for it in given:
            plain = _run(model, it, ())
            before = float(measured(plain, plain, it))
            if it.number == 0:
                noise = _noise(model, it, measured, plain)
            unchanged.append(before)
            values.append(float(measured(_run(model, it, doing), plain, it)) - before)
            control_values += [float(measured(_run(model, it, beside), plain, it)) - before] if beside else []
    differences = [a - b for a, b in zip(values, control_values, strict=False)]
    return Effect(
        tuple(map(_words, doing)),
        measured.words,
        tuple(unchanged),
        tuple(values),
        estimate(values, how, test=_NO_TEST if measured.distance else ""),
        noise,
        tuple(map(_words, beside)),
        tuple(control_values) if beside else None,
        estimate(differences, how) if beside else None,
    )


def _several(interventions: Any) -> tuple[Any, ...]:
    return tuple(interventions) if isinstance(interventions, (list, tuple)) else (interventions,)


def _words(intervention: Any) -> str:
    if not _changes_inputs(intervention):
        return repr(intervention)
    if isinstance(intervention, functools.partial):
        given = [*map(repr, intervention.args), *(f"{k}={v!r}" for k, v in intervention.keywords.items())]
        return f"{intervention.func.__name__}({', '.join(['inputs', *given])})"
    return f"{getattr(intervention, '__name__', type(intervention).__name__)}(inputs)"


def _run(model: nn.Module, given: Input, interventions: Sequence[Any]) -> Any:
    for it in interventions:
        given = changed_input(given, it) if _changes_inputs(it) else given
    with intervene(model, *(it for it in interventions if not _changes_inputs(it))):
        return given.run(model)


def _changes_inputs(intervention: Any) -> bool:
    return callable(intervention) and not hasattr(intervention, "layer")


def _noise(model: nn.Module, given: Input, metric: Metric, plain: Any) -> float:
    """How much two unchanged runs differ: a model that drops out at random has no unchanged run."""
    again = _run(model, given, ())
    noise = abs(float(metric(again, plain, given)) - float(metric(plain, plain, given)))
    if noise and model.training:
        raise SoftlookupError(
            "effect: two unchanged runs of this model differ, as any two runs would.",
            expected="the same output for the same input",
            got=f"a difference of {noise:.3g} in {metric.name}, in training mode",
            hint="model.eval() switches dropout off",
        )
    return noise


def _sentence(found: Estimate, n: int) -> str:
    if n == 1:
        return f"It changes by {found.mean:+.4g} for this one input, which says nothing about others."
    changed = f"It changes by {found.mean:+.4g} on average over {n} inputs"
    if found.interval is None:
        return f"{changed}; too few for an interval."
    sure = interval_words(found.interval, found.level)
    p = "" if found.p_value is None else f"; {p_words(found.p_value)}"
    nothing = found.interval[0] <= 0 <= found.interval[1] and found.p_value is not None
    return f"{changed} ({sure}{p})." + (" No effect is shown: the interval holds 0." if nothing else "")


def _difference(found: Estimate) -> str:
    words = f"The difference is {found.mean:+.4g}"
    if found.interval is None:
        return f"{words}; too few inputs for an interval."
    p = "" if found.p_value is None else f"; {p_words(found.p_value)}"
    return f"{words} ({interval_words(found.interval, found.level)}{p})."
