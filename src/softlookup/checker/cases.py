"""Cases with fixed random numbers, within what a target lets us ask, and cases bent to show one thing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.abilities import Abilities
from softlookup.checker.wiring import Wiring
from softlookup.terms import Case


@dataclass(frozen=True)
class Sizes:
    """Sizes of a case: q [B, H, T_q, d_head], k [B, H_kv, T_k, d_head], v [B, H_kv, T_k, d_v]."""

    B: int = 2
    H: int = 3
    H_kv: int = 3
    T_q: int = 5
    T_k: int = 7
    d_head: int = 8
    d_v: int = 4


class CaseBuilder:
    """Builds cases that respect the abilities; every case has its own fixed random numbers."""

    def __init__(self, abilities: Abilities, dtype: torch.dtype) -> None:
        self.abilities = abilities
        self.dtype = dtype

    def sizes(self, **wanted: int) -> Sizes:
        """Return the wanted sizes, as far as the abilities allow them."""
        can = self.abilities
        sizes = replace(Sizes(H=6) if can.grouped else Sizes(), **wanted)
        if not can.batch:
            sizes = replace(sizes, B=1)
        if not can.heads:
            sizes = replace(sizes, H=1, H_kv=1)
        elif can.one_kv_head:
            sizes = replace(sizes, H_kv=1)
        elif not can.grouped:
            sizes = replace(sizes, H_kv=sizes.H)
        if not can.rectangular:
            sizes = replace(sizes, T_k=sizes.T_q)
        if not can.own_value_width:
            sizes = replace(sizes, d_v=sizes.d_head)
        return sizes if can.wiring is None else self._as_wired(sizes, can.wiring)

    def _as_wired(self, sizes: Sizes, wiring: Wiring) -> Sizes:
        """Take the widths that the projections have, and no more tokens than their inputs can tell apart."""
        heads = {"H": wiring.num_heads, "H_kv": wiring.num_kv_heads}
        sizes = replace(sizes, **heads, d_head=wiring.d_head, d_v=wiring.shown)
        room = wiring.capacity // {"self": 1, "cross": 2, "three": 3}[wiring.source]
        sizes = replace(sizes, B=max(1, min(sizes.B, room // 2)))
        T_q, T_k = (max(1, min(T, room // sizes.B)) for T in (sizes.T_q, sizes.T_k))
        if T_q == T_k and sizes.T_q != sizes.T_k and T_q > 1:
            T_q -= 1
        if self.abilities.grid:
            T_q, T_k = (max(2, T // 2 * 2) for T in (T_q, T_k))
        return replace(sizes, T_q=T_q, T_k=T_k)

    def case(self, seed: int, sizes: Sizes, *, gain: float = 1.0) -> Case:
        """Return a case of these sizes, its q [B, H, T_q, d_head] multiplied by gain."""
        random = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=random, dtype=torch.float64)

        q = draw(sizes.B, sizes.H, sizes.T_q, sizes.d_head) * gain
        k = draw(sizes.B, sizes.H_kv, sizes.T_k, sizes.d_head)
        v = draw(sizes.B, sizes.H_kv, sizes.T_k, sizes.d_v) + 0.5
        if self.abilities.one_source:
            k = v = q
        can = self.abilities
        case = Case(
            q.to(self.dtype),
            k.to(self.dtype).clone(),
            v.to(self.dtype).clone(),
            causal=can.corner if can.always_causal else None,
            window=can.fixed_window,
            window_ahead=can.fixed_window is not None and can.window_ahead,
            scale=can.fixed_scale,
            wiring=can.wiring,
        )
        if can.mask_always and not can.causal_unless_masked:
            case = case.but(allowed_mask=self.full_mask(case))
        return case

    def masked(self, case: Case, allowed_mask: Tensor) -> Case:
        """Give the mask; every query keeps at least one key under all rules together."""
        if self.abilities.causal_unless_masked:
            case = case.but(causal=None)
        return case.but(allowed_mask=keep_one_key(case, allowed_mask))

    def full_mask(self, case: Case) -> Tensor:
        """[B or 1, H or 1, T_q or 1, T_k] over the axes that the target's mask has: everything is allowed."""
        axes = self.abilities.mask_axes
        B, H, T_q = case.q.shape[:3]
        shape = (
            B if "B" in axes else 1,
            H if "H" in axes else 1,
            T_q if "T_q" in axes else 1,
            case.k.shape[-2],
        )
        return torch.ones(shape, dtype=torch.bool)

    def random_mask(self, case: Case, seed: int) -> Tensor:
        """The same shape, about six tenths of it allowed."""
        random = torch.Generator().manual_seed(seed)
        return torch.rand(self.full_mask(case).shape, generator=random) < 0.6

    def padding_mask(self, case: Case) -> Tensor:
        """[B or 1, 1, 1 or T_q, T_k]: each sample is shorter than the one before."""
        axes = self.abilities.mask_axes
        T_q, T_k = case.q.shape[-2], case.k.shape[-2]
        B = case.q.shape[0] if "B" in axes else 1
        lengths = torch.tensor([max(1, T_k - 2 - 2 * b) for b in range(B)])
        mask = (torch.arange(T_k) < lengths[:, None])[:, None, None, :]
        return mask.expand(B, 1, T_q if "T_q" in axes else 1, T_k).clone()


def keep_one_key(case: Case, allowed_mask: Tensor) -> Tensor:
    """Allow one more key in every row of the mask that would leave some query with none."""
    mask = allowed_mask.clone()
    for _ in range(case.k.shape[-2] + 1):
        allowed = STEPS.visible(case.but(allowed_mask=mask))
        assert allowed is not None
        empty = ~allowed.any(dim=-1, keepdim=True)
        if not empty.any():
            return mask
        others = STEPS.visible(case.but(allowed_mask=None))
        free = others if others is not None else torch.ones_like(allowed)
        last = free.int().cumsum(-1).argmax(-1, keepdim=True)  # the last key that the other rules allow
        rescue = empty & (torch.arange(free.shape[-1]) == last)
        for axis, size in enumerate(mask.shape[:-1]):
            if size == 1 and rescue.dim() > axis and rescue.shape[axis] > 1:
                rescue = rescue.any(dim=axis, keepdim=True)
        mask = mask | rescue.expand(mask.shape)
    return mask


def with_zero_queries(case: Case) -> Case:
    """Two queries whose scores are all exactly 0: allowed, and nothing special."""
    q = case.q.clone()
    q[..., 1, :] = 0
    q[..., min(3, q.shape[-2] - 1), :] = 0
    k, v = (
        (q.clone(), q.clone())
        if case.k.shape == q.shape and torch.equal(case.k, case.q)
        else (case.k, case.v)
    )
    return case.but(q=q, k=k, v=v)


def with_huge_scores(case: Case, max_score: float) -> Case:
    """Scores of about -max_score everywhere, below a modest fill: one feature is opposite in q and k."""
    q, k = case.q.clone(), case.k.clone()
    size = math.sqrt(max_score * math.sqrt(q.shape[-1]))
    q[..., 0], k[..., 0] = size, -size
    return case.but(q=q, k=k)


def with_hidden_nan(case: Case) -> Case:
    """NaN in every key and value that no query of its sample may look at."""
    allowed = STEPS.visible(case)
    assert allowed is not None
    B, H, T_q = case.q.shape[:3]
    seen = allowed.expand(B, H, T_q, case.k.shape[-2]).any(dim=2).any(dim=1)  # [B, T_k]
    hidden = ~seen[:, None, :, None]
    broken = case.but(k=case.k.masked_fill(hidden, math.nan), v=case.v.masked_fill(hidden, math.nan))
    if case.wiring is not None and case.wiring.source == "self":  # a token is query, key and value at once
        broken = broken.but(q=case.q.masked_fill(hidden, math.nan))
    return broken


def without_last(case: Case, count: int) -> Case:
    """The case without its last tokens; without its last keys only where there are more of these."""
    T = case.k.shape[-2]
    return case.but(
        **{
            name: tensor[:, :, : T - count].clone() if tensor.shape[-2] == T else tensor
            for name, tensor in (("q", case.q), ("k", case.k), ("v", case.v))
        }
    )


def with_blank_end(case: Case, count: int) -> Case:
    """The same, and the last tokens are 0; the last keys only where there are more of these."""
    T = case.k.shape[-2]
    last = (torch.arange(T) >= T - count)[:, None]
    return case.but(
        **{
            name: tensor.masked_fill(last, 0.0) if tensor.shape[-2] == T else tensor
            for name, tensor in (("q", case.q), ("k", case.k), ("v", case.v))
        }
    )


def in_two_documents(case: Case) -> Case:
    """Two documents in each row, cut at another place in each sample."""
    B, T = case.q.shape[0], case.q.shape[-2]
    ids = torch.stack([(torch.arange(T) >= 2 + b).long() for b in range(B)])
    return case.but(document_ids=ids)


def with_broken_document(case: Case) -> Case:
    """NaN in the last document's keys and values, which no query of the first may look at."""
    assert case.document_ids is not None
    last = (case.document_ids == 1)[:, None, :, None]
    return case.but(k=case.k.masked_fill(last, math.nan), v=case.v.masked_fill(last, math.nan))
