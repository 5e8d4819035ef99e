"""Every key of one row removed, one at a time and one after the other: what ``RowFacts`` holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from softlookup.experiments.changed_row import Change, RowRuns
from softlookup.experiments.metrics import Metric
from softlookup.experiments.one_input import Input
from softlookup.experiments.resampling import Resampling
from softlookup.experiments.row_facts import RowFacts, is_heavy
from softlookup.experiments.slopes import AddedToRow, row_slopes
from softlookup.experiments.value_norms import norms_of_values
from softlookup.masks.accept import whole_number
from softlookup.recording import RecordedCall

_SAME = 1e-3  # of the longest value: values nearer than this are the same


@dataclass(frozen=True)
class Removal:
    """How keys are removed.

    most_keys: of a row; of more, the heaviest two thirds, and some of the rest
    orders: random orders that the removal curve is compared with; None: 20, or 8 where there are inputs
        enough for an interval;  points: of the curve
    shuffles: of the weights of the row;  at_once: samples of a batch
    tell: told how many runs are done, after every batch; what it raises ends the work
    """

    most_keys: int = 24
    orders: int | None = None
    points: int = 6
    shuffles: int = 8
    at_once: int = 32
    resampling: Resampling = field(default_factory=Resampling)
    tell: Callable[[int], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        for name, least in (("most_keys", 3), ("points", 1), ("shuffles", 1), ("at_once", 1)):
            whole_number(name, getattr(self, name), at_least=least)
        whole_number("orders", 1 if self.orders is None else self.orders, at_least=1)

    def for_inputs(self, number: int) -> Removal:
        """Return the same with a number of orders that suits a number of inputs."""
        few = number < self.resampling.fewest
        return self if self.orders is not None else replace(self, orders=20 if few else 8)


@dataclass(frozen=True, eq=False)
class Row:
    """One row as it is. weights: float64 [T_k];  groups: keys that hold the same value;  left_out: keys"""

    weights: Tensor
    seen: Tensor
    groups: tuple[tuple[int, ...], ...]
    left_out: int

    def factors(self, silenced: Sequence[int]) -> Tensor:
        """[T_k]: 0 for the keys of these groups, 1 for the others."""
        found = torch.ones_like(self.weights)
        for group in silenced:
            found[list(self.groups[group])] = 0.0
        return found

    def keys(self, groups: Sequence[int]) -> tuple[int, ...]:
        """Return the keys of some groups."""
        return tuple(key for group in groups for key in self.groups[group])


def read_row(call: RecordedCall, head: int, query: int, most_keys: int) -> Row:
    """Return a row of a recorded call, its keys in groups that hold the same value."""
    weights = call.weights(heads=[head], queries=[query])[0, 0].double().cpu()
    seen = call.allowed(heads=[head], queries=[query])[0, 0].cpu()
    seen = torch.nn.functional.pad(seen, (0, len(weights) - len(seen)))
    visible = seen.nonzero()[:, 0].tolist()
    groups = _groups(visible, _own_values(call, head))
    ranked = sorted(groups, key=lambda it: -float(weights[list(it)].sum()))
    if len(ranked) > most_keys:
        heaviest, rest = ranked[: most_keys * 2 // 3], ranked[most_keys * 2 // 3 :]
        places = torch.linspace(0, len(rest) - 1, most_keys - len(heaviest)).round().long().tolist()
        ranked = [*heaviest, *(rest[it] for it in sorted(set(places)))]
    kept = tuple(sorted(ranked))
    return Row(weights, seen, kept, len(visible) - sum(map(len, kept)))


def _own_values(call: RecordedCall, head: int) -> Tensor | None:
    """[T_k, d_v] of the first sample, of the group that the head belongs to."""
    if call.values is None:
        return None
    return call.values[0, head // (call.call.num_heads // call.call.num_kv_heads)].double().cpu()


def _groups(visible: Sequence[int], values: Tensor | None) -> list[tuple[int, ...]]:
    if values is None:
        return [(it,) for it in visible]
    near = _SAME * float(values[list(visible)].norm(dim=-1).max()) if visible else 0.0
    groups: list[list[int]] = []
    for key in visible:
        own = next((it for it in groups if float((values[it[0]] - values[key]).norm()) <= near), None)
        if own is None:
            groups.append([key])
        else:
            own.append(key)
    return [tuple(it) for it in groups]


def measured_row(
    model: nn.Module, given: Input, call: RecordedCall, place: tuple[int, int], asked: tuple[Metric, Removal]
) -> RowFacts:
    """Remove the keys of one row and measure.

    call: of this input, recorded;  place: head and query
    """
    (head, query), (metric, how) = place, asked
    row = read_row(call, head, query, how.most_keys)
    runs = RowRuns(model, given, (call.call.layer, head, query), metric, how)
    n = len(row.groups)
    nothing = Change(factors=torch.zeros_like(row.weights))
    everything = float(runs.sizes([nothing])[0])
    weights = torch.tensor([float(row.weights[list(it)].sum()) for it in row.groups], dtype=torch.float64)
    if n < 2:
        alike = torch.full((n,), everything, dtype=torch.float64)
        none = torch.zeros(0, dtype=torch.float64)
        empty = torch.zeros(0, dtype=torch.long)
        return RowFacts(
            query, row.groups, weights, alike, alike, alike, {}, empty, none, none[None], everything,
            0.0, none, runs.noise, row.left_out,
        )  # fmt: skip
    singles = range(n)
    hidden = runs.sizes([Change(hidden=row.groups[it]) for it in singles])
    silenced = runs.sizes([Change(factors=row.factors([it])) for it in singles])
    counts, curves = _curves(runs, row, weights, how)
    uniform, shuffled = _other_maps(runs, row, how)
    norms, why = norms_of_values(model, call, head)
    rankings: dict[str, Tensor | None] = {
        "norm-weighted": None if norms is None else _of_groups(row, row.weights * norms),
        **_slopes(model, given, call, (head, query), row, asked),
    }
    return RowFacts(
        query, row.groups, weights, hidden, silenced, _alone(runs, row, weights), rankings, counts,
        curves[0], curves[1:], everything, uniform, shuffled, runs.noise, row.left_out, why,
    )  # fmt: skip


def _alone(runs: RowRuns, row: Row, weights: Tensor) -> Tensor:
    """[n]: how far a heavy group by itself is from no key at all; NaN for the others."""
    found = torch.full_like(weights, math.nan)
    heavy = [it for it in range(len(weights)) if is_heavy(float(weights[it]), len(weights))]
    if heavy:
        nothing = runs.output(Change(factors=torch.zeros_like(row.weights)))
        found[heavy] = runs.sizes([Change(factors=1 - row.factors([it])) for it in heavy], nothing)
    return found


def _curves(runs: RowRuns, row: Row, weights: Tensor, how: Removal) -> tuple[Tensor, Tensor]:
    """Counts [m], and effects [1 + orders, m]: most weighted first, then random orders."""
    draw = torch.Generator().manual_seed(how.resampling.seed)
    n = len(weights)
    spaced = torch.logspace(0, math.log10(max(n - 1, 1)), how.points).round().long().tolist()
    steps = torch.tensor(sorted(set(spaced)))
    chance = torch.randperm(n, generator=draw)  # equal weights in a random order
    orders = [chance[weights[chance].argsort(descending=True, stable=True)]]
    orders += [torch.randperm(n, generator=draw) for _ in range(how.orders or 0)]
    changes = [
        Change(hidden=row.keys(order[:count].tolist())) for order in orders for count in steps.tolist()
    ]
    return steps, runs.sizes(changes).view(len(orders), len(steps))


def _other_maps(runs: RowRuns, row: Row, how: Removal) -> tuple[float, Tensor]:
    """Effects of an even row, and of rows whose weights are shuffled among the keys that are seen."""
    draw = torch.Generator().manual_seed(how.resampling.seed)
    places = row.seen.nonzero()[:, 0]
    even = torch.zeros_like(row.weights)
    even[places] = row.weights.sum() / len(places)
    rows = [even]
    for _ in range(how.shuffles):
        other = torch.zeros_like(row.weights)
        other[places] = row.weights[places[torch.randperm(len(places), generator=draw)]]
        rows.append(other)
    found = runs.sizes([Change(row=it) for it in rows])
    return float(found[0]), found[1:]


def _slopes(
    model: nn.Module,
    given: Input,
    call: RecordedCall,
    place: tuple[int, int],
    row: Row,
    asked: tuple[Metric, Removal],
) -> dict[str, Tensor | None]:
    added = torch.zeros(len(row.weights), requires_grad=True)
    slopes = row_slopes(
        model, given, AddedToRow(call.call.layer, *place, added), asked[0], asked[1].resampling.seed
    )
    if slopes is None:
        return {"gradient": None, "attention x gradient": None}
    return {
        "gradient": _of_groups(row, slopes),
        "attention x gradient": _of_groups(row, row.weights * slopes),
    }


def _of_groups(row: Row, of_keys: Tensor) -> Tensor:
    """[n]: the sums over the keys of each group, without their signs."""
    return torch.stack([of_keys[list(it)].sum().abs() for it in row.groups])
