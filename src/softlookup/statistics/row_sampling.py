"""The numbers of some queries, from their scores: what ``observe`` says of all of them, of a few.

The scores of a few queries are few, so they are computed in the open: no plan, no tiles. It is the way of
the watch, which looks at some queries of every call instead of all of some.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softlookup.remembering import remembered
from softlookup.statistics.kept_memory import scratch
from softlookup.statistics.rows import Rows

_CELL = 64  # keys whose positions are counted from their middle, so that squares keep their digits
_NO_WEIGHT = -80.0  # e to the power of less is no normal float32, and slow; next to 1 it is 0


def rows_of_scores(
    scores: Tensor,
    allowed: Tensor,
    positions: Tensor,
    *,
    rule: Tensor | None = None,
    sinks: int = 0,
    num_keys: int | None = None,
) -> Rows:
    """Return the rows of scores [B, H, n, T_k + sinks], which are used up.

    scores: scaled, and with what is added, in float32 or float64
    allowed: bool, broadcastable to them, True = this query sees this key
    positions: int64 [n] where each query stands among the keys
    rule: bool, broadcastable to [B, H, n, T_k]: weight on keys that it hides is ``forbidden_mass``
    sinks: so many columns at the end take weight and are no keys
    num_keys: how many keys there are, when no query sees those after the first T_k

    Returns: Rows of [B, H, n], with the exact ``max_score``.

    >>> rows = rows_of_scores(torch.zeros(1, 1, 1, 4), torch.ones(4, dtype=torch.bool), torch.tensor([3]))
    >>> round(float(rows.entropy_nats), 4), float(rows.distance_tokens)  # log 4; 3 - 1.5
    (1.3863, 1.5)
    """
    k_len = scores.shape[-1] - sinks
    shape = scores.shape[:-1]
    num_visible = allowed[..., :k_len].sum(dim=-1).expand(shape)
    nan_count, inf_count = _not_finite(scores[..., :k_len], allowed[..., :k_len])
    scores.masked_fill_(~allowed, -math.inf)
    largest = scores.amax(dim=-1, keepdim=True)
    max_score = largest if sinks == 0 else scores[..., :k_len].amax(dim=-1, keepdim=True)
    below = scores.sub_(largest.masked_fill(largest == -math.inf, 0.0)).clamp_(min=_NO_WEIGHT)
    weights = torch.exp(below, out=scratch("weights", below.shape, below))
    on_sinks, weights, below = weights[..., k_len:], weights[..., :k_len], below[..., :k_len]
    on_keys, first_moment, second_moment = _sums(weights).unbind(dim=-1)
    total = on_keys + on_sinks.sum(dim=-1) if sinks else on_keys
    real, log_total = num_visible > 0, total.log()
    share = torch.where(real, 1 / total, 0.0)
    mean = first_moment * share
    variance = second_moment * share - mean.square() * (2 - on_keys * share)  # sum of w (j - mean)^2
    entropy = (log_total * on_keys - below.mul_(weights).sum(dim=-1)) * share  # sum of -w log w
    own = positions.clamp(0, k_len - 1).expand(shape)[..., None]
    has_own = (positions >= 0) & (positions < k_len)
    measured = {
        "lse": (log_total + largest[..., 0]).masked_fill(~real, -math.inf),
        "entropy_nats": entropy.masked_fill(~real, 0.0),
        "key_mean": mean,
        "key_variance": variance.clamp(min=0),
        "self_mass": weights.gather(-1, own)[..., 0] * share * has_own,
        "first_mass": weights[..., 0] * share,
        "row_sum": total * share,
        "max_score": max_score[..., 0].masked_fill(~real, -math.inf),
    }
    if rule is not None:
        measured["forbidden_mass"] = _weight_on(~rule, weights, allowed[..., :k_len], below) * share
    return Rows(
        query_position=positions,
        num_visible=num_visible,
        num_keys=k_len if num_keys is None else num_keys,
        nan_count=nan_count,
        inf_count=inf_count,
        **{name: value.to(scores.dtype) for name, value in measured.items()},
    )


def _not_finite(scores: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """[B, H, n] twice: how many visible scores are NaN, and inf or -inf."""
    if bool(scores.sum().isfinite()):  # nearly always, and a third of the price of looking at each
        none = torch.zeros(scores.shape[:-1], dtype=torch.int64, device=scores.device)
        return none, none
    return (scores.isnan() & allowed).sum(dim=-1), (scores.isinf() & allowed).sum(dim=-1)


def _weight_on(keys: Tensor, weights: Tensor, allowed: Tensor, room: Tensor) -> Tensor:
    """[B, H, n]: the sum of the weights on some keys, in the room of a tensor that is used up."""
    if not bool((keys & allowed).any()):  # nearly always: the rule is kept
        return weights.new_zeros(())
    return torch.mul(weights, keys, out=room).sum(dim=-1)


def _sums(weights: Tensor) -> Tensor:
    """[B, H, n, 3] in float64: the sums of w, w j and w j^2 over the keys j."""
    k_len, width = weights.shape[-1], min(_CELL, weights.shape[-1])
    of_cell, of_cells = _positions(k_len, width, weights.dtype, weights.device)
    whole = k_len // width * width
    sums = torch.unflatten(weights[..., :whole], -1, (-1, width)) @ of_cell  # [B, H, n, cells, 3]
    if whole < k_len:
        rest = weights[..., None, whole:] @ of_cell[: k_len - whole]
        sums = torch.cat([sums, rest], dim=-2)
    return sums.flatten(-2).double() @ of_cells


@remembered(maxsize=8)
def _positions(k_len: int, width: int, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor]:
    """What turns weights into sums of each cell, [width, 3], and those into sums of all, [cells * 3, 3].

    With x counted from the middle m of a cell: j = m + x, j^2 = m^2 + 2 m x + x^2.
    """
    x = torch.arange(width, dtype=dtype, device=device) - (width - 1) / 2
    of_cell = torch.stack([torch.ones_like(x), x, x * x], dim=-1)
    m = torch.arange(-(-k_len // width), dtype=torch.float64, device=device) * width + (width - 1) / 2
    one, none = torch.ones_like(m), torch.zeros_like(m)
    rows = [one, m, m * m], [none, one, 2 * m], [none, none, one]
    return of_cell, torch.stack([torch.stack(row, dim=-1) for row in rows], dim=1).flatten(0, 1)
