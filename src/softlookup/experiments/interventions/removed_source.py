"""Keys that nobody may look at any more: hidden before the softmax, so their weight goes to the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from softlookup.experiments.intervention import At, Intervention, Which, as_call, positions
from softlookup.terms import SoftlookupError


@dataclass(frozen=True, eq=False, repr=False)
class RemovedSource(Intervention):
    """Some positions hidden. positions: of keys, counted from the last one if negative"""

    positions: tuple[int, ...]

    def visible(self, at: At, allowed: Tensor) -> Tensor:
        """Hide them."""
        allowed = allowed.clone()
        allowed[..., at.keys(self.positions)] = False
        return allowed


def remove_source(
    position: int | Sequence[int],
    *,
    layer: str | Sequence[str] = "*",
    head: Which = None,
    query: Which = None,
    sample: Which = None,
) -> RemovedSource:
    """Remove source positions: no query looks at them, as if they had been masked before the softmax.

    position: which keys, counted from the last one if negative
    layer: path of an attention layer, or a pattern; head, query, sample: which ones; None: all

    The weights of the keys that are left are shared out again, so they sum to 1. A query with no key left
    gets zeros. Queries that did not see the position stay as they are, bit for bit. The token is still read
    by the layer itself (its own query, the residual stream): it is removed as a source, not from the input.

    Raises: SoftlookupError for what is no position; when the model runs, for one that a call does not have.

    >>> remove_source(4, layer="model.layers.3.self_attn", head=[0, 2])
    remove_source(4, layer='model.layers.3.self_attn', head=[0, 2])
    """
    found = positions("position", position)
    if found is None:
        raise SoftlookupError(
            "remove_source: which position is to be removed?",
            expected="a whole number, or several",
            got="None",
        )
    words = as_call("remove_source", position, layer=layer, head=head, query=query, sample=sample)
    return RemovedSource(layer, head, query, sample, words, found)
