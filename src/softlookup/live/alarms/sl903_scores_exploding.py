"""The scaled scores of a head grow beyond what a softmax can tell apart, or grow towards it.

The number is the largest score of a visible key, after scaling and with what is added to it; hidden keys do
not count. Queries and keys that grow together make scores grow with the square: the softmax turns into a
choice of one key, gradients vanish there, and in half precision the differences between scores are rounded
away. Training diverges some hundred steps later.

Missed because: the loss looks well until it does not, and fused kernels never show a score.

Fix: normalise queries and keys (QK-norm), clip the scores (soft capping, QK-clip), lower the learning rate,
or look for a scale that is missing or applied twice: `softlookup check` names those.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from softlookup.live.limits import Limits, Raised
from softlookup.live.past import Past
from softlookup.live.record import Record

_FOR_A_SLOPE = 16  # measured calls


def judge(record: Record, past: Past, limits: Limits) -> Iterator[Raised]:
    """Compare with the limit; in training also with how fast scores grow."""
    largest = record.statistics.max_score
    assert largest is not None
    scores = largest[0]
    for head in (scores > limits.max_score).nonzero()[:, 0].tolist():
        value = float(scores[head])
        yield Raised(
            head,
            value,
            f"the largest scaled score of a visible key is {value:.4g}, beyond {limits.max_score:g}",
        )
    yield from _growing(record, past, limits)


def _growing(record: Record, past: Past, limits: Limits) -> Iterator[Raised]:
    """A straight line through the last calls that reaches the limit as soon again, from half of it on."""
    layer = past.of(record)
    if not record.call.training or len(layer.steps) < _FOR_A_SLOPE:
        return
    steps = torch.tensor(list(layer.steps), dtype=torch.float64)
    scores = torch.stack(list(layer.max_scores)).double()  # [n, H]
    away = steps - steps.mean()
    slope = (away[:, None] * (scores - scores.mean(0))).sum(0) / (away**2).sum()
    line = scores.mean(0) + away[:, None] * slope
    apart = (scores - line).square().mean(0).sqrt()
    rise = slope * (steps[-1] - steps[0])
    now = line[-1]
    grows = (rise > 4 * apart) & (now > limits.max_score / 2) & (now <= limits.max_score)
    grows &= now + rise > limits.max_score
    for head in grows.nonzero()[:, 0].tolist():
        left = (limits.max_score - float(now[head])) / float(slope[head])
        yield Raised(
            head,
            float(scores[-1, head]),
            f"scores grow by {float(slope[head]):.3g} a step,"
            f" and pass {limits.max_score:g} in about {left:.0f} steps",
        )
