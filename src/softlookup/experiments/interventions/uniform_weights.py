"""A map in which every query looks at all keys that it sees alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from softlookup.experiments.intervention import At, Intervention, Which, as_call


@dataclass(frozen=True, eq=False, repr=False)
class UniformMap(Intervention):
    """One share for all."""

    def normalize(self, at: At, weights: Tensor) -> Tensor:
        """Share 1 out over the keys that are seen."""
        assert at.allowed is not None
        seen = at.allowed.to(weights.dtype)
        return seen / seen.sum(dim=-1, keepdim=True).clamp(min=1)


def uniform_map(
    *, layer: str | Sequence[str], head: Which = None, query: Which = None, sample: Which = None
) -> UniformMap:
    """Replace maps by even ones: 1/n on each of the n keys that a query sees, whatever their scores.

    layer, head, query, sample: where, as in ``remove_source``

    A sink of the model gets nothing.

    >>> uniform_map(layer="model.layers.0.self_attn", head=3)
    uniform_map(layer='model.layers.0.self_attn', head=3)
    """
    words = as_call("uniform_map", layer=layer, head=head, query=query, sample=sample)
    return UniformMap(layer, head, query, sample, words)
