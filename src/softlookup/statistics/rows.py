"""What each query did with its weights, in a few numbers, and how these numbers merge.

A row of weights w over the visible keys j is told by its log-sum-exp, its entropy, the mean and variance of
the attended position, and the weight on a few keys. Two rows of the same query over disjoint keys merge into
the row over all of them, without the scores: a shard holds the share exp(lse_shard - lse) of the weight.

Source: Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", arXiv 1805.02867.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import torch
from torch import Tensor

from softlookup.terms import SoftlookupError

#: Linear in the weights: the row of all keys is the sum of the shards, each times its share.
_LINEAR = ("self_mass", "first_mass", "row_sum", "forbidden_mass", "key_mass")
_COUNTED = ("num_visible", "nan_count", "inf_count")
_WITH_LAST_AXIS = ("key_mass", "top_weights", "top_keys")  # [B, H, T_q, n]; all others end with T_q
_NO_KEY = -1  # in top_keys: the query sees fewer than k keys


@dataclass(frozen=True, eq=False)
class Rows:
    """What one call of attention did, one number for each query.

    Every tensor is [B, H, T_q] unless said, detached, in float32 (float64 for float64 inputs). Positions of
    keys are counted over all keys, also in a shard of them. A query without any key: lse -inf, else 0.
    """

    lse: Tensor  # log-sum-exp of the scaled scores over the visible keys: log sum_j exp(score_j)
    entropy_nats: Tensor  # -sum_j w_j log w_j
    key_mean: Tensor  # sum_j w_j j: the mean position of the attended key
    key_variance: Tensor  # sum_j w_j (j - key_mean)^2, tokens squared
    query_position: Tensor  # int64 [T_q]: where each query stands among the keys
    self_mass: Tensor  # weight on the key at the query's own position; 0 where there is none
    first_mass: Tensor  # weight on key 0, the usual sink
    row_sum: Tensor  # sum of the weights as computed: 1 up to rounding
    num_visible: Tensor  # int64: keys that the mask shows to the query
    num_keys: int  # T_k
    nan_count: Tensor  # int64: visible scores that are NaN
    inf_count: Tensor  # int64: visible scores that are inf or -inf
    max_score: Tensor | None = None  # the largest scaled visible score, exact; -inf without keys
    forbidden_mass: Tensor | None = None  # weight on keys that the mask allows and the declared rule forbids
    key_mass: Tensor | None = None  # [B, H, T_q, key buckets]: weight on each bucket, counted over all keys
    top_weights: Tensor | None = None  # [B, H, T_q, k], largest first; 0 where the query sees fewer keys
    top_keys: Tensor | None = None  # int64 [B, H, T_q, k]: their positions; -1 where it sees fewer keys

    @property
    def empty(self) -> Tensor:
        """Bool [B, H, T_q]: True where the query sees no key."""
        return self.num_visible == 0

    @property
    def distance_tokens(self) -> Tensor:
        """[B, H, T_q]: query_position - key_mean; positive looks back."""
        return self.query_position - self.key_mean

    @property
    def spread_tokens(self) -> Tensor:
        """[B, H, T_q]: sqrt(key_variance), the standard deviation of the attended position."""
        return self.key_variance.clamp(min=0).sqrt()

    @property
    def row_sum_error(self) -> Tensor:
        """[B, H, T_q]: |row_sum - 1|; 0 without keys, where no sum is expected."""
        return (self.row_sum - 1).abs().masked_fill(self.empty, 0.0)

    @property
    def masked_fraction(self) -> Tensor:
        """[B, H, T_q]: the share of the keys that is hidden, 1 - num_visible / num_keys."""
        return 1 - self.num_visible / max(self.num_keys, 1)

    @property
    def max_score_bounds(self) -> tuple[Tensor, Tensor]:
        """Two [B, H, T_q], least and most: lse - log num_visible <= max score <= lse, up to rounding.

        n scores sum to at most n times the largest exp, and to at least the largest one alone.
        """
        return self.lse - self.num_visible.clamp(min=1).to(self.lse.dtype).log(), self.lse

    def without_keys(self) -> Rows:
        """Return the same queries before any key was seen: merging it with rows leaves them as they are."""
        seen = {name: torch.zeros_like(value) for name, value in self.tensors().items()}
        seen |= {name: seen[name] - math.inf for name in ("lse", "max_score") if name in seen}
        if "top_keys" in seen:
            seen["top_keys"] += _NO_KEY
        return replace(self._but(seen), query_position=self.query_position, num_keys=0)

    def merge_keys(self, other: Rows) -> Rows:
        """Return the rows of the same queries over the keys of both; the keys must be disjoint.

        lse: logaddexp of both; the share of one side: s = exp(lse_side - lse) = sigmoid(lse_side - lse_other)
        entropy: sum of s (entropy_side - log s), the chain rule
        variance: sum of s (variance_side + (mean_side - mean)^2) (Chan, Golub and LeVeque 1979)
        masses, mean and row sum: sum of s times those of each side; counts: added; max score: the larger
        top k: the k largest of both, the earlier key first where two are equal

        Associative and commutative up to rounding; ``without_keys()`` is its identity.

        Raises: SoftlookupError when the two are not the same queries, or only one has an optional field.

        Source: Milakov and Gimelshein 2018, arXiv 1805.02867, section 3.1.
        """
        self._require_same(other, "merge_keys", queries=True)
        mine, theirs = _shares(self, other)
        mean = _mixed(mine, self.key_mean, theirs, other.key_mean)
        return replace(
            self,
            lse=torch.logaddexp(self.lse, other.lse),
            entropy_nats=self._entropy_of_both(other, mine, theirs),
            key_mean=mean,
            key_variance=_mixed(
                mine,
                self.key_variance + (self.key_mean - mean) ** 2,
                theirs,
                other.key_variance + (other.key_mean - mean) ** 2,
            ),
            num_keys=self.num_keys + other.num_keys,
            **self._with(other, _LINEAR, lambda a, b: _mixed(mine, a, theirs, b)),
            **self._with(other, _COUNTED, torch.add),
            **self._with(other, ("max_score",), torch.maximum),
            **self._top_of_both(other, mine, theirs),
        )

    def concat(self, other: Rows) -> Rows:
        """Return the rows of these queries followed by those of ``other``, over the same keys.

        Raises: SoftlookupError when the number of keys differs, or only one has an optional field.
        """
        self._require_same(other, "concat", queries=False)
        names = tuple(self.tensors())
        joined = {name: self._with(other, (name,), _joined_along(name))[name] for name in names}
        return self._but(joined)

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors that are there, by field."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}

    def to(self, device: torch.device | str) -> Rows:
        """Return the same rows on another device."""
        return self._but({name: value.to(device) for name, value in self.tensors().items()})

    def _but(self, values: dict[str, Any]) -> Rows:
        return replace(self, **values)

    def _with(
        self, other: Rows, names: tuple[str, ...], both: Callable[[Tensor, Tensor], Tensor]
    ) -> dict[str, Tensor]:
        """Combine some fields of both sides, those that are there."""
        ours, theirs = self.tensors(), other.tensors()
        return {name: both(ours[name], theirs[name]) for name in names if name in ours}

    def _entropy_of_both(self, other: Rows, mine: Tensor, theirs: Tensor) -> Tensor:
        ahead = self.lse - other.lse  # log(mine / theirs)
        log_mine, log_theirs = (torch.nn.functional.logsigmoid(gap) for gap in (ahead, -ahead))
        return _mixed(mine, self.entropy_nats - log_mine, theirs, other.entropy_nats - log_theirs)

    def _top_of_both(self, other: Rows, mine: Tensor, theirs: Tensor) -> dict[str, Tensor]:
        both = self._with(other, ("top_keys", "top_weights"), lambda a, b: torch.cat([a, b], dim=-1))
        if not both:
            return {}
        k = both["top_keys"].shape[-1] // 2
        shares = torch.stack([mine, theirs], dim=-1).repeat_interleave(k, dim=-1)  # [B, H, T_q, 2 k]
        keys, weights = both["top_keys"], _scaled(shares, both["top_weights"])
        last = torch.iinfo(keys.dtype).max
        earlier = keys.masked_fill(keys == _NO_KEY, last).argsort(dim=-1, stable=True)
        keys, weights = keys.gather(-1, earlier), weights.gather(-1, earlier)
        largest = weights.argsort(dim=-1, descending=True, stable=True)[..., :k]
        return {"top_keys": keys.gather(-1, largest), "top_weights": weights.gather(-1, largest)}

    def _require_same(self, other: Rows, doing: str, *, queries: bool) -> None:
        """Refuse rows that do not belong together."""
        ours, theirs = self.tensors(), other.tensors()
        if ours.keys() != theirs.keys():
            raise SoftlookupError(
                f"Rows.{doing}: what was measured differs.",
                expected="the same fields on both sides",
                got=f"only on one side: {', '.join(sorted(ours.keys() ^ theirs.keys()))}",
                hint="observe both with the same exact_max, top_k, rule and pooled",
            )
        for name in ours:
            found = tuple(_shape(name, rows[name], queries=queries) for rows in (ours, theirs))
            if found[0] != found[1]:
                raise SoftlookupError(
                    f"Rows.{doing}: the rows differ in shape.",
                    expected=f"{name} of one shape" + ("" if queries else ", up to the number of queries"),
                    got=f"{found[0]} and {found[1]}",
                )
        if queries and not torch.equal(self.query_position, other.query_position):
            raise SoftlookupError(
                f"Rows.{doing}: these are not the same queries.",
                expected="the same query_position on both sides",
                got=f"{_span(self.query_position)} and {_span(other.query_position)}",
                hint="concat, for other queries over the same keys",
            )
        if not queries and self.num_keys != other.num_keys:
            raise SoftlookupError(
                f"Rows.{doing}: these queries do not see the same keys.",
                expected="one number of keys",
                got=f"{self.num_keys} and {other.num_keys}",
                hint="merge_keys first, for the same queries over other keys",
            )


def _shares(one: Rows, two: Rows) -> tuple[Tensor, Tensor]:
    """[B, H, T_q] twice: the shares of the weight on either side; 0 for a side without keys."""
    ahead = one.lse - two.lse  # NaN where neither has a key
    return (
        torch.sigmoid(ahead).masked_fill(one.lse == -math.inf, 0.0),
        torch.sigmoid(-ahead).masked_fill(two.lse == -math.inf, 0.0),
    )


def _scaled(share: Tensor, value: Tensor) -> Tensor:
    """Return share * value, and 0 where the share is 0, whatever the value."""
    return (share * value).masked_fill(share == 0, 0.0)


def _mixed(mine: Tensor, a: Tensor, theirs: Tensor, b: Tensor) -> Tensor:
    """Return mine * a + theirs * b; a and b are [B, H, T_q] or [B, H, T_q, n]."""
    if a.dim() > mine.dim():
        mine, theirs = mine[..., None], theirs[..., None]
    return _scaled(mine, a) + _scaled(theirs, b)


def _joined_along(name: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Return how a field is continued: along its axis of queries."""
    axis = -2 if name in _WITH_LAST_AXIS else -1
    return lambda a, b: torch.cat([a, b], dim=axis)


def _shape(name: str, value: Tensor, *, queries: bool) -> tuple[int, ...]:
    shape = list(value.shape)
    if not queries:
        del shape[-2 if name in _WITH_LAST_AXIS else -1]
    return tuple(shape)


def _span(positions: Tensor) -> str:
    if not len(positions):
        return "no query"
    return f"queries {int(positions[0])} to {int(positions[-1])}"
