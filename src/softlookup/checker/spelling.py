"""How masks are spelled: a case's mask and bias in the form that a target wants."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.checker.layouts import arrange_mask
from softlookup.terms import Case


@dataclass(frozen=True)
class MaskSpelling:
    """How the target wants a mask."""

    parameter: str
    kind: str  # "allowed", "blocked", "additive" or "lengths"
    values: str = "bool"  # "bool", "int" or "float"
    axes: tuple[str, ...] = ("B", "1", "T_q", "T_k")

    def write(self, case: Case, *, as_integers: bool = False) -> Tensor | None:
        """Spell the case's mask and bias; None when this spelling cannot say it."""
        sizes = sizes_of(case)
        allowed = case.allowed_mask
        if self.kind == "additive":
            bias = torch.zeros(1, 1, 1, case.k.shape[-2], dtype=case.q.dtype)
            if case.additive_bias is not None:
                bias = bias + case.additive_bias.to(case.q.dtype)
            if allowed is not None:
                bias = torch.where(allowed, bias, -math.inf)
            return arrange_mask(bias, self.axes, sizes)
        if allowed is None:
            allowed = torch.ones(1, 1, 1, case.k.shape[-2], dtype=torch.bool)
        if self.kind == "lengths":
            lengths = allowed.reshape(allowed.shape[0], -1, allowed.shape[-1])[:, 0].sum(-1)
            right_padded = torch.arange(allowed.shape[-1]) < lengths[:, None, None, None]
            if not torch.equal(right_padded.expand(allowed.shape), allowed):
                return None
            return lengths.expand(case.q.shape[0]).clone()
        mask = arrange_mask(allowed if self.kind == "allowed" else ~allowed, self.axes, sizes)
        if mask is None:
            return None
        if as_integers or self.values == "int":
            return mask.long()
        return mask.to(case.q.dtype) if self.values == "float" else mask


def sizes_of(case: Case) -> dict[str, int]:
    """Return the sizes that a case binds."""
    B, H, T_q, d = case.q.shape
    return {
        "B": B,
        "H": H,
        "H_kv": case.k.shape[1],
        "T_q": T_q,
        "T_k": case.k.shape[2],
        "d_head": d,
        "d_v": case.v.shape[-1],
    }
