"""What ``observe`` returns: the numbers of each head, and how those of shards, steps and processes merge."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from softlookup.statistics.moments import Moments
from softlookup.statistics.pooled import PooledMap
from softlookup.statistics.ranks import of_every_rank
from softlookup.statistics.rows import Rows
from softlookup.statistics.showing import counted, in_words, plain
from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

#: Fields and properties of rows that are averaged over queries; the last two only when they were asked for.
_MEASURED = (
    "lse",
    "entropy_nats",
    "distance_tokens",
    "spread_tokens",
    "self_mass",
    "first_mass",
    "row_sum_error",
    "max_score",
    "forbidden_mass",
)
_BETWEEN = "max_score_at_least"


class Mean:
    """The mean over the queries that see a key, [B, H] in float64; NaN where no query does."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, statistics: None, owner: type) -> Mean: ...
    @overload
    def __get__(self, statistics: Statistics, owner: type) -> Tensor: ...
    def __get__(self, statistics: Statistics | None, owner: type) -> Tensor | Mean:
        return self if statistics is None else statistics.moments[self.name].mean


class Count:
    """How many there were, int64 [B, H]."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, statistics: None, owner: type) -> Count: ...
    @overload
    def __get__(self, statistics: Statistics, owner: type) -> Tensor: ...
    def __get__(self, statistics: Statistics | None, owner: type) -> Tensor | Count:
        return self if statistics is None else statistics.counts[self.name]


@dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """What attention did, in numbers for each sample and head.

    moments: by name, over the queries that see a key: count, mean, std, low and high, each [B, H]
    counts: by name, int64 [B, H]
    pooled: weights summed in buckets of queries and keys; None when not asked for, or not to be had
    rows: the numbers of each query; None when not asked for
    steps: how many calls were merged

    Statistics of parts merge into those of the whole, in any grouping: ``merge_keys``, ``merge_queries``,
    ``merge_steps`` and, between processes, ``all_reduce``.

    >>> from softlookup.statistics.observing import observe
    >>> _, statistics = observe(*torch.zeros(3, 1, 2, 8, 4))
    >>> round(statistics.merge_steps(statistics).entropy_nats[0, 1].item(), 4)  # log 8
    2.0794
    """

    moments: dict[str, Moments]
    counts: dict[str, Tensor]
    pooled: PooledMap | None = None
    rows: Rows | None = None
    steps: int = 1

    lse = Mean()  # log-sum-exp of the scaled scores
    entropy_nats = Mean()  # 0: all weight on one key; log n: alike on n keys
    distance_tokens = Mean()  # how far back a query looks
    spread_tokens = Mean()  # standard deviation of the attended position
    self_mass = Mean()  # weight on the query's own position
    first_mass = Mean()  # weight on key 0, the usual sink
    row_sum_error = Mean()  # |sum of the weights - 1|

    queries = Count()
    empty_rows = Count()  # queries that see no key
    nan_count = Count()  # visible scores that are NaN
    inf_count = Count()  # visible scores that are inf or -inf
    visible_pairs = Count()  # pairs of a query and a key that it sees
    possible_pairs = Count()  # all pairs

    @classmethod
    def from_rows(cls, rows: Rows, pooled: PooledMap | None = None, *, keep_rows: bool = False) -> Statistics:
        """Return the statistics of rows [B, H, T_q].

        pooled: their map, handed on as it is
        keep_rows: hand the rows out too, which ``merge_keys`` needs
        """
        if rows.lse.device.type == "mps":
            rows = rows.to("cpu")  # MPS has no float64
        values = {name: getattr(rows, name) for name in _MEASURED}
        values[_BETWEEN] = rows.max_score_bounds[0]
        measured = {name: value for name, value in values.items() if value is not None}
        together = Moments.of(torch.stack(list(measured.values())), ~rows.empty)  # few rows: all at once
        moments = dict(zip(measured, together.unbind(), strict=True))
        counts = {
            "queries": torch.ones_like(rows.num_visible),
            "empty_rows": rows.empty.long(),
            "nan_count": rows.nan_count,
            "inf_count": rows.inf_count,
            "visible_pairs": rows.num_visible,
            "possible_pairs": torch.full_like(rows.num_visible, rows.num_keys),
        }
        summed = {name: count.sum(dim=-1) for name, count in counts.items()}
        return cls(moments, summed, pooled, rows if keep_rows else None)

    @property
    def masked_fraction(self) -> Tensor:
        """[B, H]: the share of the pairs of query and key that is hidden."""
        return 1 - self.visible_pairs.double() / self.possible_pairs.clamp(min=1)

    @property
    def max_score(self) -> Tensor | None:
        """[B, H]: the largest scaled score that any query sees; None when it was not asked for."""
        largest = self.moments.get("max_score")
        return None if largest is None else largest.high

    @property
    def max_score_bounds(self) -> tuple[Tensor, Tensor]:
        """Two [B, H]: the largest score lies between them; always there.

        max over queries of (lse - log num_visible) <= largest score <= max over queries of lse
        """
        return self.moments[_BETWEEN].high, self.moments["lse"].high

    @property
    def forbidden_mass(self) -> Tensor | None:
        """[B, H]: mean weight on keys that the declared rule forbids; None when no rule was declared."""
        forbidden = self.moments.get("forbidden_mass")
        return None if forbidden is None else forbidden.mean

    def merge_keys(self, other: Statistics) -> Statistics:
        """Return the statistics of the same queries over the keys of both, which must be disjoint.

        Exact, row by row: see ``Rows.merge_keys``. The map is there when the rows hold ``key_mass``.

        Raises: SoftlookupError when either has no rows, or they do not belong together.
        """
        if self.rows is None or other.rows is None:
            raise SoftlookupError(
                "Statistics.merge_keys: averages over queries do not merge over keys, single queries do.",
                expected="rows on both sides",
                got="no rows in "
                + " and ".join(
                    side for side, it in (("the first", self), ("the second", other)) if it.rows is None
                ),
                hint="observe(..., per_query=True)",
            )
        rows = self.rows.merge_keys(other.rows)
        pooled = None
        if self.pooled is not None and other.pooled is not None and rows.key_mass is not None:
            self._require("merge_keys", "buckets of queries and keys", self.pooled.grid, other.pooled.grid)
            queries, keys = self.pooled.grid
            pooled = PooledMap.of(rows.key_mass, query_widths=queries, key_widths=keys)
        return Statistics.from_rows(rows, pooled, keep_rows=True)

    def merge_queries(self, other: Statistics) -> Statistics:
        """Return the statistics of these queries and, after them, those of ``other`` over the same keys.

        Rows are joined where both have them; maps are stacked where their buckets of keys are the same.

        Raises: SoftlookupError when samples, heads, steps or what was measured differ.
        """
        whole = self._merged(other, "merge_queries")
        self._require("merge_queries", "steps", self.steps, other.steps)
        rows = None if self.rows is None or other.rows is None else self.rows.concat(other.rows)
        pooled = None if self.pooled is None else self.pooled.merge_queries(other.pooled)
        return replace(whole, pooled=pooled, rows=rows)

    def merge_steps(self, other: Statistics) -> Statistics:
        """Return the statistics of the calls of both: moments over all their queries, maps added up.

        Samples are kept apart while every call has the same number of them; once the numbers differ, sample n
        of one call is not that of another, and all samples of both are taken together ([1, H]). Rows are
        dropped. The map is dropped when the calls differ in its grid, as they do when they differ in length.

        Raises: SoftlookupError when heads, or what was measured, differ.
        """
        if len(self.queries) != len(other.queries):
            return self.over_batch().merge_steps(other.over_batch())
        whole = self._merged(other, "merge_steps")
        pooled = None if self.pooled is None else self.pooled.merge_maps(other.pooled)
        return replace(whole, pooled=pooled, steps=self.steps + other.steps)

    def over_batch(self) -> Statistics:
        """Return the statistics of all samples together: [1, H], without rows."""
        if len(self.queries) == 1:
            pooled = None if self.pooled is None else self.pooled.over_batch()
            return replace(self, pooled=pooled, rows=None)
        return Statistics(
            {name: moments.over(0, keepdim=True) for name, moments in self.moments.items()},
            {name: count.sum(0, keepdim=True) for name, count in self.counts.items()},
            None if self.pooled is None else self.pooled.over_batch(),
            steps=self.steps,
        )

    def all_reduce(self, group: ProcessGroup | None = None) -> Statistics:
        """Return the statistics of all samples of all processes, [1, H]: the same bits on every rank.

        Every rank of the group has to call it. Ranks may differ in the number of samples and in length; the
        map is dropped where their grids differ. With NCCL, set the device of the process first.

        Raises: SoftlookupError, on all ranks alike, when heads or what was measured differ; when no process
        group was set up.
        """
        own = self.over_batch()
        first, *others = of_every_rank(own.to("cpu"), group)
        for other in others:
            merged = first.merge_steps(other)
            first = replace(merged, steps=max(first.steps, other.steps))
        return first.to(self.queries.device)

    def _merged(self, other: Statistics, doing: str) -> Statistics:
        """Merge moments and counts of the same samples and heads."""
        for what, ours, theirs in (
            ("statistics", sorted(self.moments), sorted(other.moments)),
            ("samples and heads", tuple(self.queries.shape), tuple(other.queries.shape)),
        ):
            self._require(doing, what, ours, theirs)
        return replace(
            self,
            moments={name: moments.merge(other.moments[name]) for name, moments in self.moments.items()},
            counts={name: count + other.counts[name] for name, count in self.counts.items()},
            rows=None,
        )

    @staticmethod
    def _require(doing: str, what: str, ours: object, theirs: object) -> None:
        """Refuse to merge what differs."""
        if ours != theirs:
            raise SoftlookupError(
                f"Statistics.{doing}: the two do not belong together.",
                expected=f"the same {what}",
                got=f"{ours} and {theirs}",
                hint="observe both in the same way",
            )

    def to(self, device: torch.device | str) -> Statistics:
        """Return the same statistics on another device."""
        return Statistics(
            {name: moments.to(device) for name, moments in self.moments.items()},
            {name: count.to(device) for name, count in self.counts.items()},
            None if self.pooled is None else self.pooled.to(device),
            None if self.rows is None else self.rows.to(device),
            self.steps,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return everything but the rows as JSON values, [B][H] lists; "nan", "inf" and "-inf" are texts."""
        least, most = self.max_score_bounds
        moments = {
            name: {part: plain(getattr(it, part)) for part in ("count", "mean", "std", "low", "high")}
            for name, it in self.moments.items()
        }
        pooled = None
        if self.pooled is not None:
            queries, keys = self.pooled.grid
            pooled = {
                "mean": plain(self.pooled.mean),
                "query_widths": list(queries),
                "key_widths": list(keys),
                "maps": self.pooled.maps,
            }
        return {
            "steps": self.steps,
            "counts": {name: plain(count) for name, count in self.counts.items()},
            "masked_fraction": plain(self.masked_fraction),
            "moments": moments,
            "max_score_bounds": {"at_least": plain(least), "at_most": plain(most)},
            "pooled": pooled,
        }

    def __repr__(self) -> str:
        every = self.over_batch()
        samples, steps = counted(len(self.queries), "sample"), counted(self.steps, "step")
        title = f"{samples}, {steps}: means over the queries of each head"
        return "\n".join([title, in_words(every.moments, every.counts, every.max_score_bounds)])
