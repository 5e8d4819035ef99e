"""Single rows of the attention map, exact, without the rest of it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.statistics.seen_keys import SeenKeys


class RowsOf(NamedTuple):
    """Some queries of one head of one sample.

    rows: int64 [n] queries at hand
    """

    sample: int
    head: int
    rows: Tensor


def rows_allowed(seen: SeenKeys, at: RowsOf, k_len: int) -> Tensor:
    """Return which keys some queries see: bool [n or 1, T_k]."""
    allowed = seen.allowed(at.sample, at.rows, slice(0, k_len))
    return allowed[at.head if len(allowed) > 1 else 0]


def scores_of_rows(q: Tensor, k: Tensor, seen: SeenKeys, at: RowsOf) -> tuple[Tensor, Tensor]:
    """Return the scores of some queries, -inf where the key is hidden, and which keys they see.

    q: [n, d_head] the queries, scaled; k: [T_k, d_head] the keys of their head
    Returns: floats and bool, both [n, T_k]
    """
    allowed = rows_allowed(seen, at, len(k)).expand(len(q), -1)
    added = seen.added(at.sample, at.rows, slice(0, len(k)))
    scores = q @ k.transpose(0, 1)
    if added is not None:
        scores += added[at.head if len(added) > 1 else 0]
    return scores.masked_fill_(~allowed, -math.inf), allowed


def measure_rows(
    scores: Tensor, allowed: Tensor, own: Tensor, *, start: int, top_k: int
) -> tuple[dict[str, Tensor], Tensor]:
    """Return the fields of ``Rows`` [n] for rows of scores, and their weights [n, T_k].

    scores, allowed: [n, T_k] as ``scores_of_rows`` returns them
    own: int64 [n] which key stands at the query's own position; start: position of the first key at hand
    """
    weights = scores.softmax(dim=-1)
    keys = torch.arange(scores.shape[-1], device=scores.device)
    mean = (weights * keys).sum(dim=-1)
    values = {
        "lse": scores.logsumexp(dim=-1),
        "entropy_nats": torch.special.entr(weights).sum(dim=-1),
        "key_mean": mean + start,
        "key_variance": (weights * (keys - mean[:, None]) ** 2).sum(dim=-1),
        "self_mass": (weights * (keys == own[:, None])).sum(dim=-1),
        "first_mass": weights[:, 0] if start == 0 else torch.zeros_like(mean),
        "row_sum": weights.sum(dim=-1),
        "nan_count": (scores.isnan() & allowed).sum(dim=-1),
        "inf_count": (scores.isinf() & allowed).sum(dim=-1),
        "max_score": scores.amax(dim=-1),
    }
    return values | _largest(weights, scores, allowed, start, top_k), weights


def _largest(weights: Tensor, scores: Tensor, allowed: Tensor, start: int, top_k: int) -> dict[str, Tensor]:
    """The keys with the largest scores: [n, top_k], filled up where a query sees fewer."""
    places = scores.topk(min(top_k, scores.shape[-1]), dim=-1).indices
    missing = torch.arange(places.shape[-1], device=places.device) >= allowed.sum(dim=-1, keepdim=True)
    short = (0, top_k - places.shape[-1])
    return {
        "top_weights": pad(weights.gather(-1, places).masked_fill(missing, 0.0), short),
        "top_keys": pad((places + start).masked_fill(missing, -1), short, value=-1),
    }
