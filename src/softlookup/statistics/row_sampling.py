"""The numbers of some queries, from their scores: what ``observe`` says of all of them, of a few.

The scores of a few queries are few, so they are computed in the open: no plan, no tiles. It is the way of
the watch, which looks at some queries of every call instead of all of some.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

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
    total = weights.sum(dim=-1)
    share = torch.where(num_visible > 0, 1 / total, 0.0)
    weights, below, real = weights[..., :k_len], below[..., :k_len], num_visible > 0
    on_keys = total if sinks == 0 else weights.sum(dim=-1)
    entropy = (total.log() * on_keys - below.mul_(weights).sum(dim=-1)) * share  # sum of -w log w
    mean, variance = _position(weights, share)
    own = positions.clamp(0, k_len - 1).expand(shape)[..., None]
    has_own = (positions >= 0) & (positions < k_len)
    forbidden = None if rule is None else torch.mul(weights, ~rule, out=below).sum(dim=-1) * share
    return Rows(
        lse=(total.log() + largest[..., 0]).masked_fill(~real, -math.inf),
        entropy_nats=entropy.masked_fill(~real, 0.0),
        key_mean=mean,
        key_variance=variance,
        query_position=positions,
        self_mass=weights.gather(-1, own)[..., 0] * share * has_own,
        first_mass=weights[..., 0] * share,
        row_sum=total * share,
        num_visible=num_visible,
        num_keys=k_len if num_keys is None else num_keys,
        nan_count=nan_count,
        inf_count=inf_count,
        max_score=max_score[..., 0].masked_fill(~real, -math.inf),
        forbidden_mass=forbidden,
    )


def _not_finite(scores: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
    """[B, H, n] twice: how many visible scores are NaN, and inf or -inf."""
    if bool(scores.sum().isfinite()):  # nearly always, and a third of the price of looking at each
        none = torch.zeros(scores.shape[:-1], dtype=torch.int64, device=scores.device)
        return none, none
    return (scores.isnan() & allowed).sum(dim=-1), (scores.isinf() & allowed).sum(dim=-1)


def _position(weights: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """[B, H, n] twice: mean and variance of the position of the key, from weights that add up to 1/share."""
    k_len = weights.shape[-1]
    cells = -(-k_len // _CELL)
    width = min(_CELL, k_len)
    x = torch.arange(width, dtype=weights.dtype, device=weights.device) - (width - 1) / 2
    of_cell = torch.stack([torch.ones_like(x), x, x * x], dim=-1)  # [width, 3]
    whole = k_len // width * width
    sums = torch.unflatten(weights[..., :whole], -1, (-1, width)) @ of_cell  # [B, H, n, cells, 3]
    if whole < k_len:
        rest = weights[..., None, whole:] @ of_cell[: k_len - whole]
        sums = torch.cat([sums, rest], dim=-2)
    mass, first, second = (sums * share[..., None, None]).double().unbind(dim=-1)  # [B, H, n, cells] each
    middles = torch.arange(cells, dtype=torch.float64, device=weights.device) * width + (width - 1) / 2
    mean = (mass * middles + first).sum(dim=-1)
    apart = middles - mean[..., None]
    variance = (mass * apart**2 + 2 * apart * first + second).sum(dim=-1).clamp(min=0)
    return mean.to(weights.dtype), variance.to(weights.dtype)
