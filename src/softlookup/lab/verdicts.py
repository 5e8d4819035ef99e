"""The faithfulness verdict of a head and query, as facts for the page, and the metric that it is asked with.

Verdicts come from ``softlookup.experiments``; here they learn to say how far they are, and to end: the metric
is asked after every forward, and so is whoever waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from softlookup.lab.jobs import Progress
from softlookup.lab.outcomes import Outcome
from softlookup.lab.readings import Reading

if TYPE_CHECKING:
    from softlookup.experiments.metrics import Metric
    from softlookup.experiments.resampling import Estimate
    from softlookup.experiments.verdicts import Verdict

_BESIDE_KEYS = 150  # outputs that are measured for the removal curve and the baselines, about


@dataclass(frozen=True)
class Place:
    """A row of a map, and the position whose prediction is measured."""

    layer: str
    head: int
    query: int
    at: int


def verdict_on_place(model: nn.Module, reading: Reading, place: Place, progress: Progress) -> dict[str, Any]:
    """Ask for a verdict and return it as the page shows it.

    Raises: SoftlookupError where it cannot be asked, CancelledError when somebody ended it.
    """
    from softlookup.experiments import faithfulness

    call = reading.recording[place.layer].call
    expected = _BESIDE_KEYS + 2 * min(call.k_len, 24)
    verdict = faithfulness(
        model,
        [reading.encoded.given],
        layer=place.layer,
        head=place.head,
        query=place.query,
        metric=_saying(_metric(reading.outcome, place.at), progress, expected),
    )
    return _facts(verdict)


def metric_written(outcome: Outcome, at: int) -> tuple[str, str]:
    """Return the name of the metric that suits an outcome, and the call that makes it, as Python."""
    name, position = {"tokens": ("kl", at), "classes": ("kl", "last"), "states": ("change", "all")}[
        outcome.kind
    ]
    return name, f"{name}(position={position!r})"


def _metric(outcome: Outcome, at: int) -> Metric:
    from softlookup.experiments import metrics

    if outcome.kind == "states":
        return metrics.change(position="all")
    return metrics.kl(position=at if outcome.kind == "tokens" else "last")


def _saying(metric: Metric, progress: Progress, expected: int) -> Metric:
    """Return the same metric, which says each time that an output was measured."""
    measured = 0

    def value(output: Any, unchanged: Any, given: Any) -> Tensor:
        nonlocal measured
        measured += 1
        progress.said("removing keys", min(measured, expected), expected)
        found: Tensor = metric.value(output, unchanged, given)
        return found

    return replace(metric, value=value)


def _facts(verdict: Verdict) -> dict[str, Any]:
    row = verdict.rows[0]
    return {
        "word": verdict.word,
        "words": verdict.reason,
        "metric": verdict.metric,
        "numbers": [
            [
                "removal curve, most weighted keys first, beats",
                f"{verdict.orders_beaten:.0%} of random orders",
            ],
            ["size of the effect of a uniform row", f"{verdict.uniform:.3g}"],
            ["of shuffled weights", f"{verdict.shuffled:.3g}"],
            ["of no key at all", f"{verdict.everything:.3g}"],
        ],
        "variants": [[it.name, _short(it.hidden), _short(it.silenced), it.why] for it in verdict.variants],
        "keys": [
            {"keys": list(keys), "weight": weight, "hidden": hidden, "silenced": silenced}
            for keys, weight, hidden, silenced in zip(
                row.keys, row.weights.tolist(), row.hidden.tolist(), row.silenced.tolist(), strict=True
            )
        ],
        "left_out": row.left_out,
        "text": str(verdict),
    }


def _short(found: Estimate | None) -> list[str]:
    """Return a correlation and its interval, which may stand on a line of its own."""
    if found is None:
        return ["–"]
    between = [] if found.interval is None else [f"[{found.interval[0]:+.2f}, {found.interval[1]:+.2f}]"]
    return [f"{found.mean:+.2f}", *between]
