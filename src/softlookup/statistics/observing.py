"""observe: the output of attention, and what its weights did, without the weights."""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from softlookup.attention_inputs import check_tensors
from softlookup.fused import attend_with_lse
from softlookup.fused.differentiable import apply_plan
from softlookup.fused.folding import four_axes, of_one_width
from softlookup.fused.from_spans import plan_of_spans
from softlookup.masks import Bias
from softlookup.masks.accept import whole_number
from softlookup.statistics.augmented import statistics_by_values
from softlookup.statistics.pooled import PooledMap, bucket_widths
from softlookup.statistics.reading import Scores, read_scores, read_seen
from softlookup.statistics.rows import Rows
from softlookup.statistics.seen_keys import SeenKeys, Shard
from softlookup.statistics.streaming import statistics_of_scores
from softlookup.statistics.summary import Statistics
from softlookup.statistics.wanted import Grid, Wanted
from softlookup.terms import MaskLike, SoftlookupError


def observe(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    rule: Tensor | MaskLike | None = None,
    pooled: tuple[int, int] = (64, 64),
    exact_max: bool = False,
    top_k: int = 0,
    per_query: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    enable_gqa: bool = False,
    empty_rows: Literal["raise", "zero"] = "raise",
) -> tuple[Tensor, Statistics]:
    """Return the output of ``attend``, bit for bit and with its gradient, and statistics of the weights.

    q: [..., H, T_q, d_head]   k: [..., H_kv, T_k, d_head]   v: [..., H_kv, T_k, d_v]
    mask, scale, dropout_p, enable_gqa, empty_rows: as for ``attend``; the statistics are those of the weights
        before dropout
    rule: a mask or bool tensor that was promised: weight on keys that ``mask`` allows and ``rule`` hides is
        measured as ``forbidden_mass``
    pooled: at most so many buckets of queries and of keys in the pooled map
    exact_max: also the largest score, beside its two bounds, which are always there
    top_k: also the so many largest weights of each query, in ``rows``, which are then kept; of equal ones any
    per_query: also ``rows``, the numbers of each query, with its weights on buckets of keys

    Returns: output [..., H, T_q, d_v], and Statistics of [B, H], detached, where B is all axes before H.
    They are computed in float32 (float64 for float64) from the q and k that ``attend`` used, in one more pass
    over the scores, which holds some numbers for each query and never [T_q, T_k]. Query i stands at key i,
    unless a rule of the mask counts from the last key.

    Raises: SoftlookupError as ``attend`` does; for a rule that adds to the scores or does not fit; when
    pooled, top_k or what else is asked for is no such number.

    >>> from softlookup.masks import causal
    >>> q, k, v = torch.zeros(3, 1, 2, 8, 4)
    >>> output, statistics = observe(q, k, v, causal())
    >>> round(statistics.entropy_nats[0, 0].item(), 4)  # the mean of log 1, log 2, ... log 8
    1.3256
    """
    asked = _Asked(rule, pooled, exact_max, top_k, per_query)
    asked.check()
    output, lse = attend_with_lse(
        q, k, v, mask, scale=scale, dropout_p=dropout_p, enable_gqa=enable_gqa, empty_rows=empty_rows
    )
    scores = read_scores(q, k, mask, scale=scale)
    rows, sums = _measured(scores, asked.wanted(q, k), lse)
    widths = bucket_widths(q.shape[-2], pooled[0])
    key_widths = Grid.of(k.shape[-2], pooled[1]).key_widths(k.shape[-2])
    return output, Statistics.from_rows(
        rows, PooledMap(sums, widths, key_widths), keep_rows=per_query or top_k > 0
    )


def observe_shard(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    q_start: int,
    k_start: int,
    q_total: int,
    k_total: int,
    rule: Tensor | MaskLike | None = None,
    key_buckets: int = 64,
    exact_max: bool = False,
    top_k: int = 0,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Tensor, Rows]:
    """Return output and rows of a shard of the queries over a shard of the keys of a longer sequence.

    q, k, v: as for ``observe``: the queries [q_start, q_start + T_q) of q_total, and the keys
        [k_start, k_start + T_k) of k_total
    mask, rule: over the whole sequence, [..., q_total, k_total]
    key_buckets: at most so many buckets of all keys, in ``Rows.key_mass``; the same in every shard

    Returns: output [..., H, T_q, d_v], 0 for a query that sees no key of the shard, and Rows, whose positions
    count from the first key of all. ``Rows.merge_keys`` and ``Rows.concat`` make one of those of all shards.

    Raises: SoftlookupError as ``observe`` does, and for a shard that does not lie in the whole.
    """
    check_tensors(q, k, v, enable_gqa=enable_gqa)
    shard = Shard(q_start, k_start, q_total, k_total)
    _check_shard(shard, q.shape[-2], k.shape[-2])
    asked = _Asked(rule, (1, key_buckets), exact_max, top_k, True)
    asked.check()
    scores = read_scores(q, k, mask, scale=scale, shard=shard)
    output, lse = _attend_shard(q, k, v, scores)
    rows, _ = _measured(scores, asked.wanted(q, k, shard), lse)
    return output, rows


class _Asked(NamedTuple):
    """What the caller wants to know."""

    rule: Tensor | MaskLike | None
    pooled: tuple[int, int]
    exact_max: bool
    top_k: int
    per_query: bool

    def check(self) -> None:
        """Refuse numbers that are none, and a rule that adds to the scores."""
        if not (isinstance(self.pooled, (tuple, list)) and len(self.pooled) == 2):
            raise SoftlookupError(
                "observe: `pooled` cannot be used.",
                expected="two whole numbers: at most so many buckets of queries, and of keys",
                got=repr(self.pooled),
                hint="pooled=(64, 64)",
            )
        for number, axis in zip(self.pooled, ("queries", "keys"), strict=True):
            whole_number(f"pooled buckets of {axis}", number, at_least=1)
        whole_number("top_k", self.top_k, at_least=0)
        if isinstance(self.rule, Bias) or (isinstance(self.rule, Tensor) and self.rule.dtype != torch.bool):
            raise SoftlookupError(
                "observe: `rule` says which keys may be looked at.",
                expected="a mask, or a bool tensor (True = may look)",
                got="a bias" if isinstance(self.rule, Bias) else str(self.rule.dtype),
                hint="the mask inside it, without what is added to the scores",
            )

    def wanted(self, q: Tensor, k: Tensor, shard: Shard | None = None) -> Wanted:
        """Return the same for the pass over the scores."""
        return Wanted(
            query_bucket=bucket_widths(max(1, q.shape[-2]), self.pooled[0])[0],
            key_buckets=self.pooled[1],
            exact_max=self.exact_max,
            top_k=self.top_k,
            rule=None if self.rule is None else read_seen(q, k, self.rule, shard=shard),
            key_mass=self.per_query,
        )


def _measured(scores: Scores, wanted: Wanted, lse: Tensor | None) -> tuple[Rows, Tensor]:
    """Return rows and the pooled sums: on a CPU in one pass over the scores, which is cheaper there."""
    by_values = None if scores.q.device.type == "cpu" else statistics_by_values(scores, wanted)
    return by_values or statistics_of_scores(scores, wanted, lse)


def _check_shard(shard: Shard, q_len: int, k_len: int) -> None:
    for axis, start, length, total in (
        ("queries", shard.q_start, q_len, shard.q_total),
        ("keys", shard.k_start, k_len, shard.k_total),
    ):
        whole_number(f"start of the {axis}", start, at_least=0)
        whole_number(f"total of {axis}", total, at_least=0)
        if start + length > total:
            raise SoftlookupError(
                f"observe_shard: the {axis} at hand do not lie in the whole sequence.",
                expected=f"start + {length} to be at most the total of {total}",
                got=f"start {start}, which makes {start + length}",
            )


def _attend_shard(q: Tensor, k: Tensor, v: Tensor, scores: Scores) -> tuple[Tensor, Tensor | None]:
    """Return the output [..., H, T_q, d_v] of a shard, with its gradient, and the log-sum-exp."""
    seen = scores.seen
    if seen.spans is None or isinstance(seen.mask, Bias) or q.device.type != "cpu":
        return attend_with_lse(q, k, v, _dense(seen), scale=scores.scale, enable_gqa=True, empty_rows="zero")
    plan = plan_of_spans(seen.spans, seen.q_len, batch=scores.q.shape[0], heads=scores.q.shape[1])
    q4, k4, v4 = of_one_width(*(four_axes(x.to(scores.q.dtype)) for x in (q, k, v)))
    output, lse = apply_plan(q4, k4, v4, plan, scores.scale)
    return output[..., : v.shape[-1]].reshape(*q.shape[:-1], v.shape[-1]), lse


def _dense(seen: SeenKeys) -> Tensor:
    """[B or 1, H or 1, q, k]: the mask of a shard without intervals, or with a bias, in full."""
    rows, keys = torch.arange(seen.q_len, device=seen.device), slice(0, seen.k_len)
    masks = []
    for sample in range(seen.samples):
        allowed, added = seen.allowed(sample, rows, keys), seen.added(sample, rows, keys)
        masks.append(allowed if added is None else torch.where(allowed, added, float("-inf")))
    return torch.stack(masks).expand(-1, -1, seen.q_len, seen.k_len)
