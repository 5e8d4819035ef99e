"""From what was measured of a row to numbers: does its ranking of keys predict what removing them does?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from softlookup.experiments.ranking import kendall, shuffled_correlations, spearman
from softlookup.experiments.resampling import Estimate, Resampling, estimate
from softlookup.experiments.row_facts import NEGLIGIBLE, RowFacts, is_heavy

_TIE = 1e-3  # of the largest: numbers that are nearer than this are ties


def levels(numbers: Tensor, floor: float = 0.0) -> Tensor:
    """Return numbers [n] as levels 0, 1, ...: what does not matter is level 0, near neighbours share a level.

    Without this, keys of no weight would be ranked by rounding errors.

    >>> levels(torch.tensor([0.9, 0.0004, 0.0001, 0.3, 0.30001])).tolist()
    [2.0, 0.0, 0.0, 1.0, 1.0]
    """
    largest = float(numbers.max())
    kept = torch.where(numbers >= max(floor, NEGLIGIBLE * largest), numbers, torch.zeros_like(numbers))
    order = kept.argsort()
    apart = kept[order].diff() > max(_TIE * largest, floor / 10)
    found = torch.zeros(len(numbers), dtype=torch.float64)
    found[order[1:]] = apart.cumsum(0).double()
    return found


def correlation(ranking: Tensor | None, effects: Tensor, floor: float, kind: str = "spearman") -> float:
    """Return the rank correlation of a ranking [n] and effects [n]; 0 where nothing is ranked."""
    if ranking is None or len(effects) < 2:
        return 0.0
    measure = {"spearman": spearman, "kendall": kendall}[kind]
    return float(measure(levels(ranking), levels(effects, floor)).nan_to_num(0.0))


def correlation_over(rows: Sequence[RowFacts], ranking: str, removal: str, how: Resampling) -> Estimate:
    """Return the mean rank correlation over inputs, its interval and how often shuffling does as well.

    ranking: "weight", or one of the rankings;  removal: "hidden" or "silenced"

    The interval is over inputs; where there are too few, over the keys of each, which says nothing of other
    inputs.
    """
    pairs = [(_ranking(it, ranking), getattr(it, removal), it.floor) for it in rows]
    values = [correlation(*pair) for pair in pairs]
    found = estimate(values, how, test="shuffled weights")
    if found.interval is None:
        found = replace(found, interval=_over_keys(pairs, how), how=f"{found.how}; this one is over keys")
    return replace(found, **_by_shuffling(pairs, found.mean, how))  # type: ignore[arg-type]


def _ranking(row: RowFacts, name: str) -> Tensor | None:
    return row.weights if name == "weight" else row.rankings.get(name)


_Pair = tuple[Tensor | None, Tensor, float]


def _over_keys(pairs: Sequence[_Pair], how: Resampling) -> tuple[float, float] | None:
    """A percentile interval from keys drawn with replacement; draws in which nothing varies are left out."""
    draw = torch.Generator().manual_seed(how.seed)
    total, rounds = torch.zeros(0), min(how.resamples, 2000)
    for ranking, effects, floor in pairs:
        if ranking is None or len(effects) < 3:
            return None
        a, b = levels(ranking), levels(effects, floor)
        drawn = torch.randint(len(a), (rounds, len(a)), generator=draw)
        found = spearman(a[drawn], b[drawn])
        total = found if not len(total) else total + found
    known = total[~total.isnan()] / len(pairs)
    if len(known) < rounds / 2:
        return None
    ends = torch.tensor([(1 - how.level) / 2, (1 + how.level) / 2], dtype=torch.float64)
    low, high = torch.quantile(known, ends).tolist()
    return low, high


def _by_shuffling(pairs: Sequence[_Pair], mean: float, how: Resampling) -> dict[str, object]:
    """How often shuffled weights, with the same effects, rank as well (or, below 0, as badly)."""
    varying = [
        (levels(ranking), levels(effects, floor))
        for ranking, effects, floor in pairs
        if ranking is not None and correlation(ranking, effects, floor) != 0
    ]
    if not varying:
        return {"p_value": None, "p_how": "nothing is ranked, so that nothing can be shuffled"}
    a, b = zip(*varying, strict=True)
    null = shuffled_correlations(a, b, draws=how.resamples, seed=how.seed) * len(varying) / len(pairs)
    as_far = null >= mean - 1e-9 if mean > 0 else null <= mean + 1e-9
    p_value = (int(as_far.sum()) + 1) / (how.resamples + 1)
    return {
        "p_value": p_value,
        "p_how": f"{how.resamples} shuffles of the weights within each input, one-sided",
    }


def kendall_over(rows: Sequence[RowFacts]) -> float:
    """Return the mean of Kendall's tau-b between weights and effects of hiding."""
    return sum(correlation(it.weights, it.hidden, it.floor, "kendall") for it in rows) / len(rows)


def advantage(row: RowFacts) -> float:
    """Return how much more area lies under the removal curve than under those of random orders, -1 to 1.

    Both are means over the points of the curve, divided by the largest effect on any of them.
    """
    if not len(row.counts):
        return 0.0
    largest = max(float(row.curve.max()), float(row.random_curves.max()))
    if largest < row.floor:
        return 0.0
    return float(row.curve.mean() - row.random_curves.mean()) / largest


def beaten(row: RowFacts) -> float:
    """Return the share of random orders whose area is smaller; ties count half."""
    if not len(row.counts):
        return 0.5
    own, others = row.curve.mean(), row.random_curves.mean(-1)
    near = 1e-3 * float(others.abs().max()) + 1e-12
    return float(((others < own - near).double() + ((others - own).abs() <= near).double() / 2).mean())


def idle_heavy_key(row: RowFacts) -> int | None:
    """Return the heaviest group that gives nothing, although a lighter one gives something; None without one.

    Hiding such a key may change the output, as its weight then goes to others. So a key gives nothing where
    its share can be taken out, with all other weights held, and nothing changes; and where it alone is the
    same as no key at all. The second tells it from a key whose content another key holds as well.
    """
    n = len(row.weights)
    for group in row.weights.argsort(descending=True).tolist():
        if not is_heavy(float(row.weights[group]), n):
            return None
        lighter = row.silenced[row.weights < row.weights[group]]
        best = float(lighter.max()) if len(lighter) else 0.0
        least = NEGLIGIBLE * best
        if best >= 2 * row.floor and row.silenced[group] <= least and row.alone[group] <= least:
            return int(group)
    return None
