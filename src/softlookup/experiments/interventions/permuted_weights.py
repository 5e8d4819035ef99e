"""A map whose weights went to other keys: as sharp as before, and about other tokens."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.experiments.intervention import At, Intervention, Which, as_call
from softlookup.masks.accept import whole_number


@dataclass(frozen=True, eq=False, repr=False)
class PermutedMap(Intervention):
    """Weights in another order. seed: of the order"""

    seed: int

    def normalize(self, at: At, weights: Tensor) -> Tensor:
        """Hand the weights of the keys that a query sees to one another, in an order of each query's own."""
        assert at.allowed is not None
        drawn = self._drawn(at).to(weights.device)
        mixed_up = drawn.masked_fill(~at.allowed, torch.inf).argsort(
            dim=-1
        )  # seen keys in any order, then others
        in_order = (~at.allowed).byte().argsort(dim=-1, stable=True)  # seen keys as they stand, then others
        return torch.zeros_like(weights).scatter(-1, in_order, weights.gather(-1, mixed_up))

    def _drawn(self, at: At) -> Tensor:
        """[S, h, n, T_k]: the same for a query, whichever others are asked for."""
        call = at.call
        draw = torch.Generator().manual_seed(self.seed * 1_000_003 + zlib.crc32(call.layer.encode()))
        seeds = torch.randint(2**31, (call.batch_size, call.num_heads), generator=draw)
        numbers = [
            [
                torch.rand(call.q_len, call.k_len, generator=torch.Generator().manual_seed(int(seeds[b, h])))
                for h in at.heads.tolist()
            ]
            for b in at.samples.tolist()
        ]
        drawn = torch.stack([torch.stack(of_heads) for of_heads in numbers])
        return drawn[:, :, at.queries.cpu()]


def permuted_map(
    seed: int = 0,
    *,
    layer: str | Sequence[str],
    head: Which = None,
    query: Which = None,
    sample: Which = None,
) -> PermutedMap:
    """Replace maps by permuted ones: each query hands its weights to other keys among those that it sees.

    seed: another number is another permutation; each layer, sample, head and query has its own, and the same
        in every forward
    layer, head, query, sample: where, as in ``remove_source``

    Entropy and largest weight of a query stay what they were. A query that sees one key has nothing to
    permute.

    Raises: SoftlookupError for a seed that is no whole number of at least 0.

    >>> permuted_map(1, layer="model.layers.0.self_attn")
    permuted_map(1, layer='model.layers.0.self_attn')
    """
    whole_number("seed", seed, at_least=0)
    words = as_call("permuted_map", seed, layer=layer, head=head, query=query, sample=sample)
    return PermutedMap(layer, head, query, sample, words, seed)
