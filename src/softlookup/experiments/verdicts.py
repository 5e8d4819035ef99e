"""The verdict on a row of a map: a word, sentences, and the numbers they rest on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from softlookup.experiments.judging import (
    advantage,
    beaten,
    correlation_over,
    idle_heavy_key,
    kendall_over,
)
from softlookup.experiments.resampling import Estimate, Resampling, estimate, interval_words, p_words
from softlookup.experiments.row_facts import NEGLIGIBLE, RowFacts

Word = Literal["faithful", "not shown", "misleading"]
#: The rank correlation from which on a ranking is said to predict, and the share of random orders to beat.
STRONG, MOST_ORDERS = 0.5, 0.9
_SAID = {"faithful": "faithful here", "not shown": "not shown", "misleading": "misleading"}


@dataclass(frozen=True)
class Variant:
    """One way to rank keys, held against the effects of removing them. hidden, silenced: rank correlations"""

    name: str
    hidden: Estimate | None
    silenced: Estimate | None
    why: str = ""


@dataclass(frozen=True, eq=False)
class Verdict:
    """Whether the weights of one query and head say which keys matter.

    word: "faithful", "not shown" or "misleading";  reason: the sentence behind it
    variants: "weight", "norm-weighted", "gradient" and "attention x gradient", side by side
    kendall: mean tau-b of weights and effects of hiding
    area: how much more area the removal curve has than random orders, -1 to 1;  orders_beaten: share of them
    uniform, shuffled, everything: mean effect of a uniform row, of shuffled weights, of no key at all
    rows: what was measured, one an input
    """

    word: Word
    reason: str
    layer: str
    head: int
    metric: str
    variants: tuple[Variant, ...]
    kendall: float
    area: Estimate
    orders_beaten: float
    uniform: float
    shuffled: float
    everything: float
    rows: tuple[RowFacts, ...]

    @property
    def words(self) -> str:
        """The verdict as one says it."""
        return f"{_SAID[self.word]}: {self.reason}"

    def __str__(self) -> str:
        n = len(self.rows)
        queries = sorted({it.query for it in self.rows})
        where = f"query {queries[0]}" if len(queries) == 1 else f"queries {queries[0]} to {queries[-1]}"
        lines = [
            f"{self.layer or 'the model'}, head {self.head}, {where}, {n} input{'s' if n > 1 else ''}",
            f"measured: {self.metric}",
            self.words,
            "",
            f"{'rank correlation with the effect of':<38}hiding a key{'':12}silencing it",
        ]
        lines += [f"  {it.name:<36}{_short(it.hidden):<24}{_short(it.silenced)}" for it in self.variants]
        lines += [f"  {it.name}: {it.why}" for it in self.variants if it.why]
        lines += [
            "",
            f"removal curve, most weighted first: {self.area.mean:+.2f} more area than random orders, "
            f"{100 * self.orders_beaten:.0f} % of which it beats",
            f"size of the effect: no key at all {self.everything:.3g}, a uniform row {self.uniform:.3g}, "
            f"shuffled weights {self.shuffled:.3g}",
        ]
        return "\n".join(lines)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "word": self.word,
            "words": self.words,
            "layer": self.layer,
            "head": self.head,
            "metric": self.metric,
            "variants": [asdict(it) for it in self.variants],
            "kendall": self.kendall,
            "area": self.area.as_dict(),
            "orders_beaten": self.orders_beaten,
            "uniform": self.uniform,
            "shuffled": self.shuffled,
            "everything": self.everything,
            "rows": [_row_dict(it) for it in self.rows],
        }


def _row_dict(row: RowFacts) -> dict[str, Any]:
    return {
        "query": row.query,
        "keys": [list(it) for it in row.keys],
        "left_out": row.left_out,
        "noise": row.noise,
        **{
            name: getattr(row, name).tolist() for name in ("weights", "hidden", "silenced", "counts", "curve")
        },
        "rankings": {name: None if it is None else it.tolist() for name, it in row.rankings.items()},
    }


def _short(found: Estimate | None) -> str:
    if found is None:
        return "-"
    between = "" if found.interval is None else f"  [{found.interval[0]:.2f}, {found.interval[1]:.2f}]"
    return f"{found.mean:+.2f}{between}"


def verdict_on(rows: Sequence[RowFacts], place: tuple[str, int], metric: str, how: Resampling) -> Verdict:
    """Return the verdict on what was measured. place: layer and head

    Nothing is called faithful that chance, a random order or a uniform map explains as well; and nothing
    misleading because hiding a key does little, which keys of the same content do.
    """
    names = ["weight", *rows[0].rankings]
    variants = tuple(_variant(rows, it, how) for it in names)
    area = estimate([advantage(it) for it in rows], how, test="see the share of random orders")
    share = sum(map(beaten, rows)) / len(rows)
    own = variants[0]
    assert own.hidden is not None
    assert own.silenced is not None
    word, reason = _judged(rows, (own.hidden, own.silenced), (area, share), how)
    return Verdict(
        word,
        reason,
        *place,
        metric,
        variants,
        kendall_over(rows),
        area,
        share,
        _mean([it.uniform for it in rows]),
        _mean([float(it.shuffled.mean()) if len(it.shuffled) else 0.0 for it in rows]),
        _mean([it.everything for it in rows]),
        tuple(rows),
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _variant(rows: Sequence[RowFacts], name: str, how: Resampling) -> Variant:
    if name != "weight" and any(it.rankings.get(name) is None for it in rows):
        return Variant(name, None, None, next((it.why for it in rows if it.why), "could not be had"))
    hidden, silenced = (correlation_over(rows, name, it, how) for it in ("hidden", "silenced"))
    return Variant(name, hidden, silenced, rows[0].why if name == "norm-weighted" else "")


def _judged(
    rows: Sequence[RowFacts],
    found: tuple[Estimate, Estimate],
    curve: tuple[Estimate, float],
    how: Resampling,
) -> tuple[Word, str]:
    """Return the word and its reason; the order of the questions is the order of what they rule out."""
    nothing = _nothing_to_rank(rows)
    if nothing:
        return "not shown", nothing
    idle = [(row, key) for row in rows if (key := idle_heavy_key(row)) is not None]
    if len(idle) > len(rows) / 2:
        return "misleading", _idle_words(idle, len(rows))
    numbers = _correlation_words(found)
    sure = all(it.p_value is not None and it.p_value <= 1 - how.level for it in found)
    if sure and all(it.mean <= -STRONG for it in found) and all(_below(it) for it in found):
        return "misleading", f"keys with more weight matter less when they are removed ({numbers})"
    if not sure:
        likely = max(1.0 if it.p_value is None else it.p_value for it in found)
        words = f"not told from chance: {likely:.1%} of shuffled weights rank the effects of removal as well"
        return "not shown", f"{words} ({numbers})"
    if any(it.mean < STRONG for it in found) or not all(_above(it) for it in found):
        return "not shown", f"the ranking by weight predicts the effects of removal only weakly ({numbers})"
    if _same_as(rows, [it.uniform for it in rows]):
        return "not shown", f"a uniform row gives the same here, whatever the ranking ({numbers})"
    area, share = curve
    if share < MOST_ORDERS if area.interval is None else not area.above_zero:
        return (
            "not shown",
            f"removing the most weighted keys first does no more than other orders ({numbers})",
        )
    return "faithful", f"keys with more weight matter more when they are removed ({numbers})"


def _above(found: Estimate) -> bool:
    return found.interval is None or found.interval[0] > 0


def _below(found: Estimate) -> bool:
    return found.interval is None or found.interval[1] < 0


def _nothing_to_rank(rows: Sequence[RowFacts]) -> str:
    """Say why there is nothing to rank in most inputs; "" where there is."""
    reasons: Mapping[str, int] = {}
    counts: dict[str, int] = {}
    for row in rows:
        reason = _why_nothing(row)
        counts[reason] = counts.get(reason, 0) + 1
    reasons = {name: it for name, it in counts.items() if name}
    if sum(reasons.values()) <= len(rows) / 2:
        return ""
    return max(reasons, key=lambda name: reasons[name])


def _why_nothing(row: RowFacts) -> str:
    if len(row.keys) < 2:
        same = len(row.keys) == 1 and len(row.keys[0]) > 1
        return "all keys hold the same value" if same else "the query sees one key, so that nothing is ranked"
    if max(float(row.hidden.max()), float(row.silenced.max()), row.everything) < row.floor:
        return "removing any key changes nothing, and so does removing all: the row has no part in this"
    if float(row.hidden.max()) < row.floor:
        return "hiding any key changes nothing, as the others give the same: any map would do"
    if float(row.weights.max() - row.weights.min()) < NEGLIGIBLE * float(row.weights.max()):
        return "the weights are all alike, so that they rank nothing"
    return ""


def _same_as(rows: Sequence[RowFacts], effects: Sequence[float]) -> bool:
    """Whether an effect is nothing beside those of removing keys, in most inputs."""
    small = [
        it <= max(row.floor, NEGLIGIBLE * max(float(row.hidden.max()), row.everything))
        for row, it in zip(rows, effects, strict=True)
    ]
    return sum(small) > len(rows) / 2


def _idle_words(idle: Sequence[tuple[RowFacts, int]], n: int) -> str:
    row, group = max(idle, key=lambda it: float(it[0].weights[it[1]]))
    weight, effect = float(row.weights[group]), float(row.silenced[group])
    lighter = [it for it in range(len(row.keys)) if row.weights[it] < row.weights[group]]
    other = max(lighter, key=lambda it: float(row.silenced[it]))
    where = f" (in {len(idle)} of {n} inputs)" if n > 1 else ""
    return (
        f"weight {weight:.2f} on {_keys(row.keys[group])} whose removal changes nothing"
        f" ({effect:.2g}), while removing {_keys(row.keys[other])} of weight {float(row.weights[other]):.2f}"
        f" changes {float(row.silenced[other]):.2g}{where}; hiding it only hands its weight to the others"
    )


def _keys(group: Sequence[int]) -> str:
    return (
        f"key {group[0]}" if len(group) == 1 else f"keys {', '.join(map(str, group))}, which hold the same,"
    )


def _correlation_words(found: tuple[Estimate, Estimate]) -> str:
    hidden, silenced = found
    sure = "" if hidden.interval is None else f", {interval_words(hidden.interval, hidden.level)}"
    over = " over keys" if "over keys" in hidden.how and sure else ""
    p = "" if hidden.p_value is None else f", {p_words(hidden.p_value)}"
    return f"rank correlation {hidden.mean:+.2f} hidden{sure}{over}{p}; {silenced.mean:+.2f} silenced"
