"""Biases: floats that are added to the scaled scores, with a mask that hides keys on top."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softlookup.masks.algebra import AnyOf, Mask
from softlookup.masks.discover import rule_file
from softlookup.masks.numbered import Numbered
from softlookup.terms import SoftlookupError


@dataclass(frozen=True, repr=False)
class Bias(Numbered):
    """A bias rule and, after ``&``, the mask that goes with it.

    >>> from softlookup.masks import alibi, causal
    >>> bias = alibi(2) & causal()
    >>> bias
    alibi(2) & causal()
    >>> bias.dense(2, 2)[0, 0].tolist()
    [[-0.0, -inf], [-0.0625, -0.0]]
    """

    name: str
    items: tuple[tuple[str, Any], ...]
    spelled: str
    mask: Mask | None = None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the bias by name, complete."""
        return dict(self.items)

    @property
    def sizes(self) -> dict[str, int | None]:
        """The size of each axis B, H, T_q and T_k that is fixed; None where any size will do."""
        own = rule_file(self.name, "bias").sizes(self.parameters)
        return (
            own if self.mask is None else {axis: own[axis] or size for axis, size in self.mask.sizes.items()}
        )

    @property
    def axes(self) -> frozenset[str]:
        """The axes, out of B, H, T_q and T_k, that the bias or its mask depends on."""
        own = frozenset({"T_q", "T_k"} | ({"H"} if self.sizes["H"] else set()))
        return own if self.mask is None else own | self.mask.axes

    def dense(self, q_len: int, k_len: int, *, device: torch.device | str | None = None) -> Tensor:
        """Return float32 [B or 1, H or 1, q_len, k_len] to add to the scores; -inf where the mask hides.

        Raises: SoftlookupError when the lengths do not fit the mask.
        """
        visible = None if self.mask is None else self.mask.dense(q_len, k_len, device=device)
        device = device if visible is None else visible.device
        i = torch.arange(q_len, device=device)[:, None]
        j = torch.arange(k_len, device=device)[None, :]
        bias = rule_file(self.name, "bias").on(self.parameters, i, j, q_len, k_len)  # [1, H, q_len, k_len]
        return bias if visible is None else torch.where(visible, bias, -math.inf)

    def empty_rows(self, q_len: int, k_len: int) -> list[tuple[int, int, int]]:
        """Return (batch, head, query) of every query that may look at no key: see ``Mask.empty_rows``."""
        return [] if self.mask is None else self.mask.empty_rows(q_len, k_len)

    def __and__(self, other: Mask | Tensor) -> Bias:
        if not isinstance(other, (Mask, Tensor)):
            return NotImplemented
        mask = other if isinstance(other, Mask) else Mask.from_tensor(other)
        heads, own = mask.sizes["H"], self.sizes["H"]
        if heads and own and heads != own:
            raise SoftlookupError(
                "masks: this mask does not fit the bias.",
                expected=f"H = {own}, as in {self!r}",
                got=f"H = {heads}",
            )
        return Bias(self.name, self.items, self.spelled, mask if self.mask is None else self.mask & mask)

    __rand__ = __and__

    def __repr__(self) -> str:
        if self.mask is None:
            return self.spelled
        shown = f"({self.mask!r})" if isinstance(self.mask, AnyOf) else repr(self.mask)
        return f"{self.spelled} & {shown}"
