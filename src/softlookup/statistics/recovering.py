"""Single rows of the attention map, exact, without the rest of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from softlookup.attention_inputs import check_tensors, sizes_of
from softlookup.masks.accept import whole_numbers
from softlookup.statistics.reading import read_scores
from softlookup.statistics.seen_keys import SeenKeys
from softlookup.terms import MaskLike, SoftlookupError


@torch.no_grad()
def weights_of(
    q: Tensor,
    k: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    queries: Sequence[int] | Tensor | None = None,
    heads: Sequence[int] | Tensor | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Return the weights of some queries of some heads, and compute no others.

    q: [..., H, T_q, d_head]   k: [..., H_kv, T_k, d_head]
    mask, scale, enable_gqa: as for ``attend``
    queries, heads: which ones, in this order; None: all

    Returns: [..., heads, queries, T_k] in float32 (float64 for float64), detached. A row sums to 1; hidden
    keys are exactly 0, and so is a row without keys.

    Raises: SoftlookupError when q, k and mask are no attention problem, or there is no such query or head.

    >>> from softlookup.masks import causal
    >>> q = k = torch.zeros(1, 8, 1000, 16)
    >>> weights_of(q, k, causal(), queries=[3], heads=[0])[0, 0, 0, :6]
    tensor([0.2500, 0.2500, 0.2500, 0.2500, 0.0000, 0.0000])
    """
    check_tensors(q, k, k, enable_gqa=enable_gqa)
    problem = read_scores(q, k, mask, scale=scale)
    B, H, q_len, _ = problem.q.shape
    sizes = sizes_of(q, k)
    rows = torch.tensor(_chosen("queries", queries, q_len, sizes), dtype=torch.int64, device=q.device)
    some = _chosen("heads", heads, H, sizes)
    weights = torch.empty(B, len(some), len(rows), k.shape[-2], dtype=problem.dtype, device=q.device)
    with torch.autocast(q.device.type, enabled=False):
        for sample in range(B):
            for place, head in enumerate(some):
                vectors = problem.q[sample, head, rows].to(problem.dtype) * problem.scale
                keys = problem.k[sample, head * problem.k.shape[1] // H].to(problem.dtype)
                scores, allowed = scores_of_rows(vectors, keys, problem.seen, RowsOf(sample, head, rows))
                weights[sample, place] = scores.softmax(dim=-1).masked_fill_(~allowed, 0.0)
    return weights[0, 0] if q.dim() == 2 else weights.reshape(*q.shape[:-3], *weights.shape[1:])


def _chosen(name: str, given: Sequence[int] | Tensor | None, size: int, sizes: dict[str, int]) -> list[int]:
    """Return positions below ``size``."""
    if given is None:
        return list(range(size))
    for number in (chosen := list(whole_numbers(name, given))):
        if number >= size:
            raise SoftlookupError(
                f"weights_of: there is no such one among the {name}.",
                expected=f"0 to {size - 1}" if size else f"no number, as there are no {name}",
                got=str(number),
                sizes=sizes,
            )
    return chosen


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
