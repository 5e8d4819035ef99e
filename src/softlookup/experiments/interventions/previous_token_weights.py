"""A map in which every query looks at the token before its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.experiments.intervention import At, Intervention, Which, as_call
from softlookup.terms import SoftlookupError


@dataclass(frozen=True, eq=False, repr=False)
class PreviousTokenMap(Intervention):
    """All weight on the token before."""

    def normalize(self, at: At, weights: Tensor) -> Tensor:
        """Put weight 1 on the last key seen before the own one; on the own one where there is none."""
        assert at.allowed is not None
        call = at.call
        if call.kind == "cross" or call.q_len > call.k_len:
            raise SoftlookupError(
                f"{at.words}: queries have no place among the keys of {call.layer or 'the model'}.",
                expected="self-attention",
                got="keys of another sequence" if call.kind == "cross" else "more queries than keys",
                sizes={"T_q": call.q_len, "T_k": call.k_len},
            )
        keys = torch.arange(call.k_len, device=weights.device)
        own = (at.queries + call.k_len - call.q_len)[
            :, None
        ]  # of a cache, the last keys are the queries' own
        seen_before = at.allowed & (keys < own)
        if call.kind == "cached":
            self._refuse_hidden_queries(at, own)
        found = torch.where(
            seen_before.any(dim=-1, keepdim=True),
            keys == seen_before.mul(keys + 1).argmax(dim=-1, keepdim=True),  # the last one
            (keys == own) & at.allowed,
        )
        return found.to(weights.dtype)

    def _refuse_hidden_queries(self, at: At, own: Tensor) -> None:
        """Refuse a cache with room for more keys: the last key is not the last query's own there."""
        assert at.allowed is not None
        own_seen = at.allowed.gather(-1, own.expand(*at.allowed.shape[:3], 1))
        if bool((at.allowed.any(dim=-1, keepdim=True) & ~own_seen).any()):
            raise SoftlookupError(
                f"{at.words}: where queries stand among the keys of {at.call.layer or 'the model'} is open.",
                expected="the last key to be the last query's own",
                got="a hidden one, as in a cache with room for more keys",
                sizes={"T_q": at.call.q_len, "T_k": at.call.k_len},
            )


def previous_token_map(
    *, layer: str | Sequence[str], head: Which = None, query: Which = None, sample: Which = None
) -> PreviousTokenMap:
    """Replace maps by those of a previous-token head: each query puts all its weight on the token before.

    layer, head, query, sample: where, as in ``remove_source``

    Hidden tokens, such as padding, are passed over. A query that sees none before it, such as the first one,
    looks at itself. With a cache, the last key is the last query's own.

    Raises: SoftlookupError when the model runs, in cross-attention, and for a cache with room for more keys.

    >>> previous_token_map(layer="model.layers.0.self_attn", head=3)
    previous_token_map(layer='model.layers.0.self_attn', head=3)
    """
    words = as_call("previous_token_map", layer=layer, head=head, query=query, sample=sample)
    return PreviousTokenMap(layer, head, query, sample, words)
