"""q, k and a mask of any shape, read once: four axes, one dtype, a mask that can be asked about blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.attention_inputs import sizes_of
from softlookup.fused.folding import as_autocast, check_batch_and_heads, four_axes, structure_or_tensor
from softlookup.masks.algebra import Given
from softlookup.statistics.seen_keys import SeenKeys, Shard
from softlookup.terms import MaskLike


@dataclass(frozen=True)
class Scores:
    """The scaled scores that a mask shows, not computed yet.

    q: [B, H, T_q, d_head]   k: [B, H_kv, T_k, d_head]   both detached
    """

    q: Tensor
    k: Tensor
    seen: SeenKeys
    scale: float

    @property
    def dtype(self) -> torch.dtype:
        """In which they are computed: float32, or float64 for float64."""
        return torch.float64 if self.q.dtype == torch.float64 else torch.float32


def read_scores(
    q: Tensor,
    k: Tensor,
    mask: Tensor | MaskLike | None,
    *,
    scale: float | None,
    shard: Shard | None = None,
    seen: SeenKeys | None = None,
) -> Scores:
    """Return the problem that q [..., H, T_q, d_head], k [..., H_kv, T_k, d_head] and a mask pose.

    Under autocast q and k are rounded to autocast's dtype, as attention rounds them.
    seen: the mask, where it was read before

    Raises: SoftlookupError for a mask that is none or does not fit.
    """
    if seen is None:
        seen = read_seen(q, k, mask, shard=shard)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    q, k = as_autocast(q, k)
    return Scores(four_axes(q.detach()), four_axes(k.detach()), seen, factor)


def read_seen(
    q: Tensor, k: Tensor, mask: Tensor | MaskLike | None, *, shard: Shard | None = None
) -> SeenKeys:
    """Return who sees whom.

    Raises: SoftlookupError for a mask that is none or does not fit.
    """
    q_len, k_len = q.shape[-2], k.shape[-2]
    shard = shard or Shard(0, 0, q_len, k_len)
    whole_q = q.new_empty(()).expand(*q.shape[:-2], shard.q_total, q.shape[-1])  # for their shapes only
    whole_k = k.new_empty(()).expand(*k.shape[:-2], shard.k_total, k.shape[-1])
    read = structure_or_tensor(mask, whole_q, whole_k)
    if isinstance(read, Tensor) and read.dtype == torch.bool:
        read = Given(read)  # positions are asked of the whole
    if isinstance(read, Tensor):
        read = read.detach()
        if read.shape[-2] > 1:
            read = read[..., shard.q_start : shard.q_start + q_len, :]
        if read.shape[-1] > 1:
            read = read[..., shard.k_start : shard.k_start + k_len]
    elif read is not None:
        check_batch_and_heads(read, four_axes(q).shape, doing="statistics", sizes=sizes_of(q, k))
    return SeenKeys.of(read, q_len, k_len, device=q.device, shard=shard)
