"""A head puts all weight of every query on one key, step after step.

Its entropy stays near 0 of the log(visible keys) that is possible. The softmax passes no gradient then, so
the head cannot leave that state: it is lost for training. A head that looks at the first key (a sink) does
the same for a reason, and is never an alarm.

Missed because: one dead head of many costs little at first, and the loss does not show it.

Fix: look at the scores of the head (`scores-exploding` often comes with it): QK-norm, a smaller learning
rate or warm-up; entropy collapse is what Zhai et al. 2023 (arXiv 2303.06296) treat by normalising weights.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from softlookup.live.limits import Limits, Raised
from softlookup.live.past import Past, entropy_fraction
from softlookup.live.record import Record

_OF_A_SINK = 0.3  # weight on the first key
_FEWEST_KEYS = 8  # with fewer, one key with all weight says little


def judge(record: Record, past: Past, limits: Limits) -> Iterator[Raised]:
    """Count the calls in a row in which every query of a head is collapsed."""
    layer, statistics = past.of(record), record.statistics
    if record.call.q_len < _FEWEST_KEYS or record.call.k_len < _FEWEST_KEYS:
        return
    fraction = entropy_fraction(statistics)
    own, sink = statistics.self_mass[0], statistics.first_mass[0]
    collapsed = (fraction < limits.entropy_fraction) & (sink < _OF_A_SINK)
    before = torch.zeros_like(own, dtype=torch.int64) if layer.collapsed is None else layer.collapsed
    if before.shape != collapsed.shape:
        before = torch.zeros_like(own, dtype=torch.int64)
    layer.collapsed = torch.where(collapsed, before + 1, 0)
    for head in (layer.collapsed >= limits.patience).nonzero()[:, 0].tolist():
        value = float(fraction[head])
        yield Raised(
            head,
            value,
            f"entropy stays at {value:.2%} of log(visible keys) over {int(layer.collapsed[head])} calls:"
            " every query puts all weight on one key",
        )
