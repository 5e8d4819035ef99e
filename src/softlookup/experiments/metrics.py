"""What is measured of a model's output: one number, of an output and of the unchanged one beside it.

``value(output, unchanged, given)`` is that number. An effect is its difference: of the changed output less
that of the unchanged one, which for a distance is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from softlookup.experiments.one_input import Input
from softlookup.experiments.outputs import (
    Position,
    logits_of,
    main_tensor,
    next_tokens,
    prediction_rows,
    rows_at,
)
from softlookup.terms import SoftlookupError, refuse_unknown

_DRAWS = 8  # tokens, or directions, that stand for all where a distance has no slope of its own


@dataclass(frozen=True)
class Metric:
    """One number of an output.

    words: what it is, with its unit
    value: (output, unchanged output, input) -> a tensor without axes, differentiable by the output
    distance: never negative, and 0 for the unchanged output: no test against 0 makes sense
    degree: how it grows with a small change of the output: 1, or 2 (as the square)
    apart: (output, other output, unchanged output, input) -> a distance between two changed outputs; None: of
        values, or of one to the other
    probes: (unchanged output, input, generator) -> numbers whose slopes say how fast the output moves, where
        that of ``value`` is 0 at the unchanged model
    """

    name: str
    words: str
    value: Callable[[Any, Any, Input], Any]
    distance: bool = False
    degree: int = 1
    probes: Callable[[Any, Input, torch.Generator], Iterator[Tensor]] | None = None
    apart: Callable[[Any, Any, Any, Input], Any] | None = None

    def __call__(self, output: Any, unchanged: Any, given: Input) -> Tensor:
        """Return the number, float64 without axes.

        Raises: SoftlookupError where the metric gives something else.
        """
        found = self.value(output, unchanged, given)
        found = found if isinstance(found, Tensor) else torch.as_tensor(found)
        if found.numel() != 1:
            raise SoftlookupError(
                f"experiments: the metric {self.name!r} must give one number for an input.",
                expected="a number, or a tensor with one",
                got=f"a tensor of shape {list(found.shape)}",
            )
        return found.reshape(()).double()

    @property
    def size_words(self) -> str:
        """What the sizes of effects are."""
        return f"{self.words}; sizes are its root" if self.degree == 2 else self.words

    def size(self, output: Any, other: Any, unchanged: Any, given: Input) -> float:
        """Return how far an output is from another, as a size that grows evenly with small changes."""
        if self.apart is not None:
            found = float(self.apart(output, other, unchanged, given))
        elif self.distance:
            found = float(self(output, other, given))
        else:
            found = abs(float(self(output, unchanged, given)) - float(self(other, unchanged, given)))
        return float(abs(found) ** (1 / self.degree))


def logit_difference(
    target: int | Sequence[int] | None = None,
    against: int | Sequence[int] | None = None,
    *,
    position: Position = "last",
) -> Metric:
    """Measure the logit of a target token, less that of another.

    target: a token id, one for all inputs or one each; None: what the unchanged model predicts
    against: likewise; None: what the unchanged model finds likeliest beside the target
    """

    def value(output: Any, unchanged: Any, given: Input) -> Tensor:
        plain, found = (
            prediction_rows(it, given, position, "logit_difference")[-1] for it in (unchanged, output)
        )
        wanted, other = _own(target, given), _own(against, given)
        order = plain.argsort(descending=True).tolist()
        wanted = order[0] if wanted is None else wanted
        other = next(it for it in order if it != wanted) if other is None else other
        _in_vocabulary((wanted, other), plain)
        return found[wanted] - found[other]

    of = "the likeliest token" if target is None else f"token {target}"
    other_words = "the next likeliest" if against is None else f"token {against}"
    return Metric("logit_difference", f"logit of {of} less that of {other_words}{_where(position)}", value)


def loss(labels: Tensor | Sequence[Tensor] | None = None) -> Metric:
    """Measure the loss in nats: what the model returns as such, else the mean cross-entropy of next tokens.

    labels: [1, T] ids of the predicted tokens, -100 where none is asked for, one tensor or one an input;
        None: those of the input, or its own tokens, shifted by one
    """

    def value(output: Any, unchanged: Any, given: Input) -> Tensor:
        own = labels[given.number] if isinstance(labels, Sequence) else labels
        reported = getattr(output, "loss", None)
        if own is None and isinstance(reported, Tensor):
            return reported
        logits = logits_of(output, "loss")
        own = given.kwargs.get("labels") if own is None else own
        if own is None:
            own = next_tokens(given, logits)
        if own.shape != logits.shape[:-1]:
            raise SoftlookupError(
                "experiments: labels do not fit the logits.",
                expected=f"shape {list(logits.shape[:-1])}",
                got=f"{list(own.shape)}",
            )
        return functional.cross_entropy(logits.flatten(0, -2).double(), own.flatten().to(logits.device))

    return Metric("loss", "loss in nats", value)


def kl(position: Position = "last") -> Metric:
    """Measure KL(unchanged || changed) of the predicted tokens in nats; over all positions their sum."""

    def value(output: Any, unchanged: Any, given: Input) -> Tensor:
        p, q = (prediction_rows(it, given, position, "kl").log_softmax(-1) for it in (unchanged, output))
        p = p.detach()
        return (p.exp() * (p - q)).sum().clamp(min=0.0)

    words = f"KL divergence of the prediction from the unchanged one, in nats{_where(position)}"
    return Metric("kl", words, value, True, 2, _drawn_tokens(position, "kl"))


def total_variation(position: Position = "last") -> Metric:
    """Measure the total variation of the prediction, how much probability moved; a mean over positions."""

    def value(output: Any, unchanged: Any, given: Input) -> Tensor:
        p, q = (
            prediction_rows(it, given, position, "total_variation").softmax(-1) for it in (unchanged, output)
        )
        return (p.detach() - q).abs().sum(-1).mean() / 2

    words = f"total variation: how much probability of the prediction moved, 0 to 1{_where(position)}"
    return Metric("total_variation", words, value, True, 1, _drawn_tokens(position, "total_variation"))


def change(position: Position = "all") -> Metric:
    """Measure how far the output moved, relative to itself: its logits, or its first tensor."""

    def apart(output: Any, other: Any, unchanged: Any, given: Input) -> Tensor:
        a, b, scale = (rows_at(main_tensor(it), given, position) for it in (output, other, unchanged))
        moved: Tensor = (a - b.detach()).norm() / scale.detach().norm().clamp(min=1e-30)
        return moved

    def value(output: Any, unchanged: Any, given: Input) -> Tensor:
        return apart(output, unchanged, unchanged, given)

    def probes(output: Any, given: Input, draw: torch.Generator) -> Iterator[Tensor]:
        rows = rows_at(main_tensor(output), given, position)
        for _ in range(_DRAWS):
            signs = 1 - 2.0 * torch.randint(2, rows.shape, generator=draw).to(rows)
            yield (rows * signs).sum() / rows.detach().norm()

    words = f"relative change of the output, |changed - unchanged| / |unchanged|{_where(position)}"
    return Metric("change", words, value, True, 1, probes, apart)


def compare(measure: Callable[[Any, Any], Any], *, distance: bool = False) -> Metric:
    """Measure a number of your own of the unchanged and the changed output.

    measure: (unchanged output, changed output) -> a number;  distance: whether it is never negative
    """
    name = getattr(measure, "__name__", "a comparison")
    return Metric(
        name, f"{name}(unchanged, changed)", lambda output, unchanged, _: measure(unchanged, output), distance
    )


METRICS: Mapping[str, Callable[[], Metric]] = {
    "logit_difference": logit_difference,
    "loss": loss,
    "kl": kl,
    "total_variation": total_variation,
    "change": change,
}


def read_metric(metric: Any) -> Metric:
    """Return a metric of its name, of a function (output, input) -> number, or as it is.

    Raises: SoftlookupError for an unknown name, or what is no function.
    """
    if isinstance(metric, Metric):
        return metric
    if isinstance(metric, str):
        refuse_unknown([metric], list(METRICS), "experiments: the list of metrics")
        return METRICS[metric]()
    if not callable(metric):
        raise SoftlookupError(
            "experiments: this is no metric.",
            expected=f"one of {', '.join(METRICS)}, or a function (output, input) -> number",
            got=type(metric).__name__,
            hint="metrics.compare(function) is for a function of (unchanged output, changed output)",
        )
    name = getattr(metric, "__name__", type(metric).__name__)
    return Metric(name, f"{name}(output, input)", lambda output, _, given: metric(output, given.given))


def fitting_metric(output: Any, position: Position) -> Metric:
    """Return a distance that suits an output: of predictions where it holds logits, else of its numbers."""
    return kl(position) if isinstance(getattr(output, "logits", None), Tensor) else change(position)


def _drawn_tokens(position: Position, name: str) -> Callable[[Any, Input, torch.Generator], Iterator[Tensor]]:
    """Log-probabilities of tokens drawn from the prediction: their mean squared slope is that of KL."""

    def probes(output: Any, given: Input, draw: torch.Generator) -> Iterator[Tensor]:
        rows = prediction_rows(output, given, position, name).log_softmax(-1)
        chances = rows.detach().exp().cpu()
        for _ in range(_DRAWS):
            drawn = torch.multinomial(chances, 1, generator=draw).to(rows.device)
            yield rows.gather(-1, drawn).sum()

    return probes


def _where(position: Position) -> str:
    return {"last": ", at the last position", "all": ", over all positions"}.get(
        str(position), f", at position {position}"
    )


def _own(token: int | Sequence[int] | None, given: Input) -> int | None:
    return token[given.number] if isinstance(token, Sequence) else token


def _in_vocabulary(tokens: Sequence[int], logits: Tensor) -> None:
    for token in tokens:
        if not 0 <= token < len(logits):
            raise SoftlookupError(
                "experiments: there is no such token to measure.",
                expected=f"an id in 0..{len(logits) - 1}",
                got=f"{token}",
            )
