"""The few numbers of each head that are drawn, logged and kept as series, out of the statistics of calls."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softlookup.statistics.moments import Moments
from softlookup.statistics.summary import Statistics

#: The numbers in their order, and what the larger one of two calls or heads means: "high" is the worse one,
#: "low" likewise; "" neither.
WORSE = {
    "entropy_share": "low",  # entropy / log(visible keys), 0..1
    "max_score": "high",  # the exact one, where it was asked for
    "max_score_at_least": "high",
    "max_score_at_most": "high",
    "first_mass": "high",  # weight on key 0, the usual sink
    "self_mass": "high",
    "distance_tokens": "",
    "forbidden_mass": "high",  # where a rule was declared
    "row_sum_error": "high",
    "masked_fraction": "high",
    "empty_fraction": "high",  # queries that see no key
    "nan_count": "high",  # visible scores that are NaN
    "inf_count": "high",
}


def head_numbers(statistics: Statistics) -> dict[str, Tensor]:
    """Return the numbers of ``WORSE`` that were measured, each float64 [B, H].

    entropy_share: mean entropy of the queries, divided by the mean of log(visible keys) over the same
        queries: 1 is alike on all keys, 0 all weight on one. NaN where every query sees one key only
    max_score_at_least, max_score_at_most: bounds of the largest score, which are always there

    Where no query sees a key, all are NaN but the counts and fractions.

    >>> from softlookup import observe
    >>> _, statistics = observe(*torch.zeros(3, 1, 2, 8, 4))
    >>> [round(share, 4) for share in head_numbers(statistics)["entropy_share"][0].tolist()]
    [1.0, 1.0]
    """
    queries = statistics.queries.clamp(min=1)
    moments, forbidden = statistics.moments, statistics.forbidden_mass
    return {
        "entropy_share": entropy_share(statistics),
        **({"max_score": _largest(moments["max_score"])} if "max_score" in moments else {}),
        "max_score_at_least": _largest(moments["max_score_at_least"]),
        "max_score_at_most": _largest(moments["lse"]),
        "first_mass": statistics.first_mass,
        "self_mass": statistics.self_mass,
        "distance_tokens": statistics.distance_tokens,
        **({} if forbidden is None else {"forbidden_mass": forbidden}),
        "row_sum_error": statistics.row_sum_error,
        "masked_fraction": statistics.masked_fraction,
        "empty_fraction": statistics.empty_rows.double() / queries,
        "nan_count": statistics.nan_count.double(),
        "inf_count": statistics.inf_count.double(),
    }


def _largest(moments: Moments) -> Tensor:
    """The largest one, NaN where there was none."""
    return moments.high.masked_fill(moments.count == 0, math.nan)


def entropy_share(statistics: Statistics) -> Tensor:
    """Return [B, H]: mean entropy / mean log(visible keys); NaN where every query sees one key only.

    The lower bound of a query's largest score is lse - log(visible keys): its mean has the mean log.
    """
    mean_log = statistics.lse - statistics.moments["max_score_at_least"].mean
    share = (statistics.entropy_nats / mean_log).clamp(0.0, 1.0)
    one_key_each = statistics.visible_pairs == statistics.queries - statistics.empty_rows
    return torch.where(one_key_each, math.nan, share)
