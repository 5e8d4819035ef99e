"""Scores multiplied by a factor: a head made sharper, flatter, or even."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from softlookup.experiments.intervention import At, Intervention, Which, as_call
from softlookup.terms import SoftlookupError


@dataclass(frozen=True, eq=False, repr=False)
class ScaledLogits(Intervention):
    """Scores times a factor."""

    factor: float

    def score(self, at: At, scores: Tensor) -> Tensor:
        """Multiply them."""
        return scores * self.factor


def scale_logits(
    factor: float,
    *,
    layer: str | Sequence[str] = "*",
    head: Which = None,
    query: Which = None,
    sample: Which = None,
) -> ScaledLogits:
    """Multiply what the softmax is given: above 1 the head is sharper, below 1 flatter, at 0 even.

    layer, head, query, sample: where, as in ``remove_source``

    The factor is on the whole score, with a bias of positions that the model adds; who is hidden stays
    hidden. A sink has a score of its own, which stays.

    Raises: SoftlookupError for what is no finite number.

    >>> scale_logits(0.5, layer="*", head=1)
    scale_logits(0.5, layer='*', head=1)
    """
    if isinstance(factor, bool) or not isinstance(factor, (int, float)) or not math.isfinite(factor):
        raise SoftlookupError(
            "scale_logits: `factor` cannot be used.", expected="a finite number", got=f"{factor!r}"
        )
    words = as_call("scale_logits", factor, layer=layer, head=head, query=query, sample=sample)
    return ScaledLogits(layer, head, query, sample, words, float(factor))
