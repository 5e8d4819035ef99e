"""What the page of a watch holds: numbers of layers x heads, how they went over the steps, and the alarms."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from softlookup.live.history import History, Place
from softlookup.live.numbers_of_heads import WORSE, head_numbers
from softlookup.live.stored import StoredTrace
from softlookup.live.thinned_series import Series
from softlookup.live.trace import Trace
from softlookup.statistics import Statistics
from softlookup.terms import SoftlookupError
from softlookup.viewer.packing import plain

#: In words: what a number of a head is.
_HOW = {
    "entropy_share": "mean entropy divided by the mean of log(visible keys): 1 is alike on all keys",
    "max_score": "largest score before the softmax",
    "max_score_at_least": "lower bound of the largest score",
    "max_score_at_most": "upper bound of the largest score",
    "first_mass": "mean weight on key 0, the usual sink",
    "self_mass": "mean weight of a query on its own position",
    "distance_tokens": "mean distance of keys, by weight, in tokens",
    "forbidden_mass": "mean weight on keys that the declared rule hides",
    "row_sum_error": "by how much rows miss a sum of 1",
    "masked_fraction": "share of the pairs of query and key that are hidden",
    "empty_fraction": "share of the queries that see no key",
    "nan_count": "visible scores that are NaN",
    "inf_count": "visible scores that are infinite",
}
_SHARES = {"entropy_share", "first_mass", "self_mass", "forbidden_mass", "masked_fraction", "empty_fraction"}


def trace_facts(trace: Trace | StoredTrace) -> dict[str, Any]:
    """Return the facts of the page of a watch.

    Raises: SoftlookupError where nothing was measured yet.
    """
    if isinstance(trace, StoredTrace):
        history = History(keep=1)
        history.add(trace.records)
        statistics, series = history.statistics(), history.series()
    else:
        series = trace.series
        statistics = {place: trace.layers[place.layer] for place in series}  # of all kinds of its calls
    if not statistics:
        raise SoftlookupError(
            "view: this trace holds no call of attention.", expected="a measured step", got="none"
        )
    layers = [_layer(place, it, series[place]) for place, it in statistics.items()]
    named = {name for it in layers for name in it["numbers"]}
    return {
        "form": "trace",
        "layers": layers,
        "measures": [
            {"name": name, "how": _HOW[name], "worse": worse, "share": name in _SHARES}
            for name, worse in WORSE.items()
            if name in named
        ],
        "alarms": [_alarm(it) for it in trace.alarms],
        "steps": trace.steps,
        "coverage": getattr(trace, "coverage", ""),
    }


def _layer(place: Place, statistics: Statistics, series: Series) -> dict[str, Any]:
    """Return the numbers of the heads of a layer, over all steps and as they went."""
    numbers = {name: plain(value[0]) for name, value in head_numbers(statistics).items()}
    went: dict[str, Any] = {"steps": [list(step) for step in series.steps]}
    for part in ("low", "mean", "high"):
        values = getattr(series, part)
        went[part] = {name: [plain(row) for row in values[name]] for name in numbers if name in values}
    return {
        "name": place.layer,
        "kind": place.kind,
        "heads": place.num_heads,
        "numbers": numbers,
        "series": went,
    }


def _alarm(alarm: Any) -> dict[str, Any]:
    found = asdict(alarm)
    return {**found, "value": plain([found["value"]])[0]}
