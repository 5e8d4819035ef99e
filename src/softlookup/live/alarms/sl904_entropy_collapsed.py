"""A head puts all weight of every query on one key, step after step.

Its entropy stays near 0 of the log(visible keys) that is possible. The softmax passes no gradient then, so
the head cannot leave that state: it is lost for training.

Some heads are as sharp for a reason, in the best of models, and are never an alarm: one that looks at the
first key that it may see (a sink), one that looks at itself or always so many tokens before, and one that
does the one or the other.

Missed because: one dead head of many costs little at first, and the loss does not show it.

Fix: look at the scores of the head (`scores-exploding` often comes with it): QK-norm, a smaller learning
rate or warm-up; entropy collapse is what Zhai et al. 2023 (arXiv 2303.06296) treat by normalising weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from softlookup.live.limits import Limits, Raised
from softlookup.live.numbers_of_heads import entropy_share
from softlookup.live.past import Past
from softlookup.live.record import Record
from softlookup.statistics.summary import Statistics

_OF_A_SINK = 0.3  # weight on the first key
_OF_THE_WAY = 0.95  # of the way back to the first visible key: padding on the left hides key 0
_OF_A_FIXED_STEP = 0.1  # standard deviation of the distance, as a share of the keys there are
_FEWEST_KEYS = 8  # with fewer, one key with all weight says little


def judge(record: Record, past: Past, limits: Limits) -> Iterator[Raised]:
    """Count the calls in a row in which every query of a head is collapsed."""
    layer, statistics = past.of(record), record.statistics
    if record.call.q_len < _FEWEST_KEYS or record.call.k_len < _FEWEST_KEYS:
        return
    share = entropy_share(statistics)[0]
    collapsed = share < limits.entropy_fraction
    if collapsed.any():
        collapsed &= ~_for_a_reason(statistics)
    before = torch.zeros_like(share, dtype=torch.int64) if layer.collapsed is None else layer.collapsed
    layer.collapsed = torch.where(collapsed, before + 1, 0)
    for head in (layer.collapsed >= limits.patience).nonzero()[:, 0].tolist():
        value = float(share[head])
        yield Raised(
            head,
            value,
            f"entropy stays at {value:.2%} of log(visible keys) over {int(layer.collapsed[head])} calls:"
            " every query puts all weight on one key",
        )


def _for_a_reason(statistics: Statistics) -> Tensor:
    """Bool [H]: heads that look at the first key they see, or always equally far back, or at one of the two.

    Queries that find nothing, and padding, look at the first key: a share s of them at distances up to T_k
    adds at most s (1 - s) T_k^2 to the variance of the distance.
    """
    queries = (statistics.queries - statistics.empty_rows)[0].clamp(min=1)
    visible = statistics.visible_pairs[0] / queries
    num_keys = statistics.possible_pairs[0] / statistics.queries[0].clamp(min=1)
    first, distance = statistics.first_mass[0], statistics.moments["distance_tokens"]
    sink = (first > _OF_A_SINK) | (distance.mean[0] > _OF_THE_WAY * (visible - 1))
    spread = (_OF_A_FIXED_STEP * visible).clamp(min=1.0).square() + first * (1 - first) * num_keys.square()
    return sink | (distance.std[0].square() < spread)
