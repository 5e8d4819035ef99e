"""What was measured of one query of one head in one input: what keys weigh, and what removing them does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class RowFacts:
    """One row of a map beside the effects of removing its keys. n: groups of keys; all float64 on the CPU.

    keys: the groups, each the positions of keys that hold the same value and are removed together
    weights: [n] of each group, their sum
    hidden: [n] size of the effect when a group is hidden before the softmax: its weight goes to others
    silenced: [n] the same when its share is taken out, and all others keep their weights
    alone: [n] how far a group by itself is from no key at all; NaN where it was not asked
    rankings: other numbers [n] that may rank the keys, by name; None where they could not be had, see ``why``
    counts: [m] how many groups are hidden at each point of a removal curve
    curve: [m] the effects when the most weighted are hidden first;  random_curves: [R, m] in random orders
    everything: effect when all keys are silenced;  uniform: when the row is spread evenly
    shuffled: [S] effects when the weights of the row are shuffled
    noise: effect of doing nothing in the same way
    """

    query: int
    keys: tuple[tuple[int, ...], ...]
    weights: Tensor
    hidden: Tensor
    silenced: Tensor
    alone: Tensor
    rankings: Mapping[str, Tensor | None]
    counts: Tensor
    curve: Tensor
    random_curves: Tensor
    everything: float
    uniform: float
    shuffled: Tensor
    noise: float
    left_out: int = 0  # keys that the query sees and that were not removed, as they weigh little
    why: str = ""

    @property
    def floor(self) -> float:
        """The size below which an effect counts as nothing."""
        return max(NOTHING, 5 * self.noise)


#: Sizes below this count as nothing: of a relative change, a probability, a logit, the root of a divergence.
NOTHING = 1e-3
#: A share of the largest number beside it that counts as nothing.
NEGLIGIBLE = 0.05
#: A key is heavy from this weight on, and from so many times an even share.
HEAVY_WEIGHT, HEAVY_TIMES_EVEN = 0.2, 1.5


def is_heavy(weight: float, n: int) -> bool:
    """Say whether a weight among n keys claims that its key matters."""
    return weight >= max(HEAVY_WEIGHT, HEAVY_TIMES_EVEN / n)
