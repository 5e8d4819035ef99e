"""The picture of attention for any length: weights summed in buckets of queries and keys."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


def bucket_widths(length: int, buckets: int) -> tuple[int, ...]:
    """Return the widths of at most ``buckets`` equal buckets of ``length`` positions; the last may be less.

    Position j lies in bucket j // widths[0].

    >>> bucket_widths(10, 4)
    (3, 3, 3, 1)
    """
    width = max(1, -(-length // buckets))
    return tuple(min(width, length - start) for start in range(0, length, width))


@dataclass(frozen=True, eq=False)
class PooledMap:
    """Exact sums of weights over a grid of query buckets and key buckets.

    >>> key_mass = torch.tensor([[[[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]]])  # 3 queries, 2 buckets of keys
    >>> PooledMap.of(key_mass, query_widths=(2, 1), key_widths=(4, 4)).shares.tolist()
    [[[[0.75, 0.25], [0.0, 1.0]]]]
    """

    sums: Tensor  # [B, H, query buckets, key buckets]
    query_widths: tuple[int, ...]  # how many queries each bucket holds
    key_widths: tuple[int, ...]  # how many keys
    maps: int = 1  # how many maps were added: samples times steps

    @classmethod
    def of(cls, key_mass: Tensor, *, query_widths: tuple[int, ...], key_widths: tuple[int, ...]) -> PooledMap:
        """Return the map of rows [B, H, T_q, key buckets], which are summed over the buckets of keys already.

        query_widths: they add up to T_q
        """
        if not query_widths:
            return cls(key_mass, query_widths, key_widths)
        buckets = torch.split(key_mass, list(query_widths), dim=-2)
        return cls(torch.stack([bucket.sum(dim=-2) for bucket in buckets], dim=-2), query_widths, key_widths)

    @property
    def mean(self) -> Tensor:
        """[B, H, query buckets, key buckets]: the sums of one map, averaged over samples and steps."""
        return self.sums / self.maps

    @property
    def shares(self) -> Tensor:
        """[B, H, query buckets, key buckets]: the weight that a query puts on a bucket of keys, on average.

        A row sums to 1 where every query of the bucket has a key.
        """
        return self.mean / self.mean.new_tensor(self.query_widths)[:, None]

    def merge_queries(self, other: PooledMap | None) -> PooledMap | None:
        """Stack the buckets of more queries below these; None where there is no such map of the same keys."""
        if other is None or (self.key_widths, self.maps) != (other.key_widths, other.maps):
            return None
        sums = torch.cat([self.sums, other.sums.to(self.sums.dtype)], dim=-2)
        return replace(self, sums=sums, query_widths=self.query_widths + other.query_widths)

    def merge_maps(self, other: PooledMap | None) -> PooledMap | None:
        """Add another map of the same samples, of a later step; None where there is none on this grid."""
        if other is None or self.grid != other.grid:
            return None
        return replace(self, sums=self.sums.double() + other.sums, maps=self.maps + other.maps)

    def over_batch(self) -> PooledMap:
        """Add the maps of all samples: [1, H, query buckets, key buckets]."""
        return replace(
            self, sums=self.sums.double().sum(0, keepdim=True), maps=self.maps * self.sums.shape[0]
        )

    @property
    def grid(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The widths of the buckets of queries and of keys."""
        return self.query_widths, self.key_widths

    def to(self, device: torch.device | str) -> PooledMap:
        """Return the same map on another device."""
        return replace(self, sums=self.sums.to(device))
