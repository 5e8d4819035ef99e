"""A mask as the parts that kernels have flags for: a band along the diagonal, keys, documents; and the rest.

    band      key j is in the band of query i where  low <= j - i <= high
    keys      keys that no query of the sample sees
    segments  packed documents, as cumulative lengths or as ids
    rest      what no flag can say

Causal from the first key: high = 0. Causal from the last key: high = T_k - T_q. A window of 4 keys: low = -3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.spelling import Sizes
from softlookup.conventions.tensors import everything
from softlookup.masks import AllOf, Given, Mask, Rule, causal, sliding_window
from softlookup.terms import Corner

_CAUSAL = ("causal_top_left", "causal_bottom_right")
_WINDOWS = ("window_counts_keys", "window_counts_lookback", "window_each_side")
_KEYS = ("padding_right", "padding_left", "padding_token_ids")


@dataclass(frozen=True, eq=False)
class Parts:
    """What all of a mask's parts, joined by &, come to. None: this part hides nothing.

    low, high: see above
    keys: bool [B or 1, T_k], True = may be looked at
    lengths: where ``keys`` is right padding, how many keys each sample has
    cu_seqlens: packed documents as cumulative lengths, for one row of tokens
    document_ids: packed documents as ids [B, T_k]
    """

    low: int | None = None
    high: int | None = None
    keys: Tensor | None = None
    lengths: tuple[int, ...] | None = None
    cu_seqlens: tuple[int, ...] | None = None
    document_ids: Tensor | None = None
    rest: tuple[Mask, ...] = ()

    @property
    def hides(self) -> frozenset[str]:
        """Which parts hide something: "low", "high", "keys", "cu_seqlens", "document_ids", "rest"."""
        names = ("low", "high", "keys", "cu_seqlens", "document_ids")
        found = {name for name in names if getattr(self, name) is not None}
        return frozenset(found | ({"rest"} if self.rest else set()))


def parts_of(mask: Mask, sizes: Sizes) -> Parts:
    """Return the parts of a mask. Tensors are not searched for structure: see ``recognising`` for that.

    Raises: SoftlookupError when a length is needed and nobody said it, or does not fit the mask.

    >>> from softlookup.masks import causal, padding, sliding_window
    >>> parts = parts_of(sliding_window(4) & padding([3, 5]), Sizes(q_len=5, k_len=5))
    >>> parts.low, parts.high, parts.lengths
    (-3, 0, (3, 5))
    """
    q_len = 1 if sizes.q_len is None and "T_q" not in mask.axes else sizes.of("q_len", "this mask")
    k_len = 1 if sizes.k_len is None and "T_k" not in mask.axes else sizes.of("k_len", "this mask")
    mask._check(q_len, k_len)
    parts = Parts()
    for part in mask.parts if isinstance(mask, AllOf) else (mask,):
        parts = _with(parts, part, q_len, k_len)
    low = None if parts.low is None or parts.low <= 1 - q_len else parts.low
    high = None if parts.high is None or parts.high >= k_len - 1 else parts.high
    return replace(parts, low=low, high=high)


def at_one_end(keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return in which rows of bool [rows, T_k] the visible keys are the first ones, and in which the last."""
    j = torch.arange(keys.shape[-1], device=keys.device)
    counts = keys.sum(dim=-1)[:, None]
    return (keys == (j < counts)).all(dim=-1), (keys == (j >= len(j) - counts)).all(dim=-1)


def band_rule(left: int | None, right: int | None, corner: Corner) -> Mask | None:
    """Return the rule that shows so many keys before and behind the own one; None when there is none.

    left, right: None is no bound

    >>> band_rule(2, 0, "top-left"), band_rule(2, 1, "top-left")
    (sliding_window(2, 'lookback'), None)
    """
    if left is None:
        return everything() if right is None else causal(corner) if right == 0 else None
    if right == 0 <= left:
        return sliding_window(left, "lookback", corner)
    return sliding_window(left, "each side", corner) if left == right and left >= 0 else None


def in_band(distance: Tensor, low: int | None, high: int | None) -> Tensor:
    """Return where j - i lies between two numbers; None is no bound."""
    near = torch.ones_like(distance, dtype=torch.bool)
    if low is not None:
        near &= distance >= low
    if high is not None:
        near &= distance <= high
    return near


def _with(parts: Parts, part: Mask, q_len: int, k_len: int) -> Parts:
    match part:
        case Rule(name=name) if name in (*_CAUSAL, *_WINDOWS):
            low, high = _band(name, part.parameters, k_len - q_len)
            lows, highs = (
                [end for end in ends if end is not None] for ends in ((parts.low, low), (parts.high, high))
            )
            return replace(parts, low=max(lows, default=None), high=min(highs, default=None))
        case Rule(name=name) if name in _KEYS:
            return _with_keys(parts, part, part.dense(1, k_len)[:, 0, 0])
        case Given() if part.allowed_mask.shape[1:3] == (1, 1):
            return _with_keys(parts, part, part.allowed_mask[:, 0, 0].expand(-1, k_len))
        case Rule(name="same_segment_cu_seqlens") if q_len == k_len and parts.cu_seqlens is None:
            return replace(parts, cu_seqlens=part.parameters["cu_seqlens"])
        case Rule(name="same_document") if q_len == k_len and parts.document_ids is None:
            return replace(parts, document_ids=part.parameters["document_ids"])
    return replace(parts, rest=(*parts.rest, part))


def _band(name: str, values: dict[str, Any], from_the_last: int) -> tuple[int | None, int | None]:
    """Return the lowest and the highest j - i that a causal or window rule shows."""
    if name in _CAUSAL:
        return None, 0 if name == "causal_top_left" else from_the_last
    own = 0 if values["corner"] == "top-left" else from_the_last
    before = values["window"] - (name == "window_counts_keys")
    return own - before, own + (values["window"] if name == "window_each_side" else 0)


def _with_keys(parts: Parts, part: Mask, keys: Tensor) -> Parts:
    if parts.keys is not None:
        keys = keys & parts.keys
    return replace(parts, keys=keys, lengths=_lengths(keys))


def _lengths(keys: Tensor) -> tuple[int, ...] | None:
    """Return how many keys each sample has when they are its first ones, else None."""
    return tuple(keys.sum(dim=-1).tolist()) if bool(at_one_end(keys)[0].all()) else None
