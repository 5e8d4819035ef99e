"""Statistics as values: every linear statistic of the weights is what the lookup returns for other values.

    values             looked up                          hence
    k                  E[k]                               entropy = lse - scale q E[k]
    one-hot buckets    mass of each bucket of keys        the pooled map; their sum is the row sum
    positions          E[x], E[x^2] inside each bucket    mean and variance of the position
    one for key 0      weight on key 0

So fused attention measures itself, on any device where it tells the log-sum-exp: some more calls, each as
wide as d_head. What is not linear is left to ``streaming``: the exact maximum, the top k, a bias.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from softlookup.fused import attend_with_lse
from softlookup.masks import Mask
from softlookup.statistics.reading import Scores
from softlookup.statistics.rows import Rows
from softlookup.statistics.seen_keys import Shard
from softlookup.statistics.wanted import Grid, Wanted


@torch.no_grad()
def statistics_by_values(scores: Scores, wanted: Wanted) -> tuple[Rows, Tensor] | None:
    """Return rows and the pooled sums, as ``statistics_of_scores`` does; None where they are not linear.

    None too when a row is not finite, as only a look at each score tells how many are NaN, and when the path
    that ``attend`` takes has no log-sum-exp.
    """
    seen = scores.seen
    whole = seen.shard == Shard(0, 0, seen.q_len, seen.k_len) and seen.k_len > 0
    rule = None if wanted.rule is None else wanted.rule.mask
    masks = all(it is None or isinstance(it, Mask) for it in (seen.mask, rule))
    if not (whole and masks) or wanted.exact_max or wanted.top_k:
        return None
    with torch.autocast(scores.q.device.type, enabled=False):
        return _Lookups(scores, wanted).measured()


class _Lookups:
    """The lookups of one problem, in float32 or float64."""

    def __init__(self, scores: Scores, wanted: Wanted) -> None:
        self.seen, self.wanted, self.scale = scores.seen, wanted, scores.scale
        self.q, self.k = scores.q.to(scores.dtype), scores.k.to(scores.dtype)
        self.visible = self.seen.num_visible().expand(self.q.shape[:-1])

    def look_up(self, values: Tensor, mask: Mask | None) -> tuple[Tensor, Tensor | None]:
        """[T_k, n] or [B, H_kv, T_k, n] -> [B, H, T_q, n], a few columns at a time, and the log-sum-exp."""
        found, lse = [], None
        for part in torch.split(values, self.q.shape[-1], dim=-1):
            part = part.expand(*self.k.shape[:-1], part.shape[-1])
            output, lse = attend_with_lse(
                self.q,
                self.k,
                part,
                mask,
                scale=self.scale,
                enable_gqa=self.q.shape[1] != self.k.shape[1],
                empty_rows="zero",
            )
            found.append(output)
        return torch.cat(found, dim=-1), lse

    def measured(self) -> tuple[Rows, Tensor] | None:
        """Return rows and pooled sums, or None where a row is not finite or nobody tells the log-sum-exp."""
        mask = self.seen.mask
        assert mask is None or isinstance(mask, Mask)
        mean_key, lse = self.look_up(self.k, mask)
        if lse is None:
            return None
        grid = Grid.of(self.seen.k_len, self.wanted.key_buckets)
        key_mass, key_mean, variance, first_mass = self._positions(grid, mask)
        entropy = (lse - self.scale * (self.q * mean_key).sum(dim=-1)).masked_fill(self.visible == 0, 0.0)
        if not (entropy.isfinite() & variance.isfinite()).all():
            return None
        positions = self.seen.query_positions()
        rows = Rows(
            lse=lse,
            entropy_nats=entropy,
            key_mean=key_mean,
            key_variance=variance,
            query_position=positions,
            self_mass=self._self_mass(lse, positions, mask),
            first_mass=first_mass,
            row_sum=key_mass.sum(dim=-1),
            num_visible=self.visible.clone(),
            num_keys=self.seen.k_len,
            nan_count=torch.zeros_like(self.visible),
            inf_count=torch.zeros_like(self.visible),
            forbidden_mass=self._forbidden_mass(lse, mask),
            key_mass=key_mass if self.wanted.key_mass else None,
        )
        return rows, self._pooled(key_mass)

    def _positions(self, grid: Grid, mask: Mask | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return masses of buckets [B, H, T_q, buckets], and mean, variance and weight on key 0 [B, H, T_q].

        variance = sum over buckets of mass (m - mean)^2 + 2 (m - mean) E[x] + E[x^2], x from the middle m
        """
        keys, width = torch.arange(self.seen.k_len, device=self.q.device), grid.cell * grid.cells
        buckets = torch.arange(grid.buckets, device=self.q.device)
        middles = (buckets * width + (width - 1) / 2).to(self.q.dtype)
        x = (keys - middles[keys // width]).to(self.q.dtype)[:, None]
        one_hot = (keys[:, None] // width == buckets).to(self.q.dtype)  # [T_k, buckets]
        first_key = (keys == 0).to(self.q.dtype)[:, None]
        looked_up, _ = self.look_up(torch.cat([one_hot, one_hot * x, x * x, first_key], dim=-1), mask)
        mass, first, rest = torch.split(looked_up, [grid.buckets, grid.buckets, 2], dim=-1)
        mean = mass @ middles + first.sum(dim=-1)
        apart = middles - mean[..., None]
        variance = ((apart * mass + 2 * first) * apart).sum(dim=-1) + rest[..., 0]
        return mass, mean, variance.clamp(min=0), rest[..., 1]

    def _self_mass(self, lse: Tensor, positions: Tensor, mask: Mask | None) -> Tensor:
        """[B, H, T_q]: exp(score - lse) of the key at the query's own position."""
        there = (positions >= 0) & (positions < self.seen.k_len)
        own = positions.clamp(0, self.seen.k_len - 1)
        k = self.k[:, :, own].repeat_interleave(self.q.shape[1] // self.k.shape[1], dim=1)  # [B, H, T_q, d]
        weights = (self.scale * (self.q * k).sum(dim=-1) - lse).exp()
        if mask is not None:
            i = torch.arange(self.seen.q_len, device=own.device)
            visible = mask._on(i[:, None], own[:, None], self.seen.q_len, self.seen.k_len)
            there = there & visible[..., 0]
        return torch.where(there, weights, 0.0)

    def _forbidden_mass(self, lse: Tensor, mask: Mask | None) -> Tensor | None:
        """[B, H, T_q]: what is left of the weight once the keys that the rule allows have theirs."""
        if self.wanted.rule is None:
            return None
        rule = self.wanted.rule.mask
        assert rule is None or isinstance(rule, Mask)
        both = mask if rule is None else rule if mask is None else mask & rule
        _, fine = self.look_up(self.k[..., :1], both)
        assert fine is not None
        return (-torch.expm1(fine - lse)).clamp(min=0).masked_fill(self.visible == 0, 0.0)

    def _pooled(self, key_mass: Tensor) -> Tensor:
        """[B, H, T_q, buckets] -> [B, H, query buckets, buckets]."""
        bucket = self.wanted.query_bucket
        number = math.ceil(self.seen.q_len / bucket)
        of_query = torch.arange(self.seen.q_len, device=key_mass.device) // bucket
        sums = key_mass.new_zeros(*key_mass.shape[:2], number, key_mass.shape[-1])
        return sums.index_add_(2, of_query, key_mass)
