"""DotProductAttention of TransformerEngine for PyTorch.

    attn_mask_type='padding_causal'
    attention_mask[0]: bool [2, 1, 1, 3], 1 = hidden
    [0, 0]
    . . .
    [1, 0]
    . . .
    attention_mask[1]: bool [2, 1, 1, 3], 1 = hidden
    [0, 0]
    . . .
    [1, 0]
    . . 1

In its words: attn_mask_type says which mask, and attention_mask is used with "padding..." and "arbitrary"
only. A True in it is masked out. "no_mask", "causal" (from the first key; the default),
"causal_bottom_right" (from the last key) need no tensor. "padding", also before either causal, takes a bool
[B, 1, 1, T] for queries and keys of a self-attention, or a tuple of [B, 1, 1, T_q] and [B, 1, 1, T_k] where
attention_type is "cross"; kernels make lengths of it, so real tokens come first, and bottom_right then
counts from the last real key. "arbitrary" takes what broadcasts to [B, H, T_q, T_k]. window_size=(left,
right) counts keys beside the own one, both included: (left, 0) with causal, two numbers from 0 without,
where bottom_right_diagonal says which corner (True unless said), and (-1, -1) is no window. What a query
without any key gets is not said. Its unfused kernel takes an open left side as T_k keys, so that with T_q >
T_k + 1 the last queries of a causal mask do not see the first keys.

Lost when written: nothing. Padding is written as a tuple, which keeps the rows of padded queries, and asks
for a module with attention_type="cross"; documents are written as an arbitrary mask, and as cu_seqlens by
"flash_attn varlen".

Lost when read: nothing. One tensor of padding hides the padded queries too: their rows are read as empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.parts import Parts, in_band, parts_of
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    refuse_shape,
    take_known,
)
from softlookup.conventions.tensors import as_tensor, both, dense_of, everything, given
from softlookup.conventions.varlen_rows import NO_BOUND, band_of, bound, window_of
from softlookup.masks import Mask, padding
from softlookup.terms import Corner, SoftlookupError, did_you_mean

NAME = "TransformerEngine"
ALSO = ("te.DotProductAttention", "transformer_engine.pytorch.DotProductAttention")
WORDS = "transformer_engine 2.20.2"
CALL = "DotProductAttention(...)(q, k, v, {})"
TAKES = (Takes("attention_mask", "blocked", "bool", ("B 1 1 T_k", "B H T_q T_k"), broadcast=True),)
CAUSAL = {"attn_mask_type": "causal"}
WINDOW = ({"attn_mask_type": "causal", "window_size": (3, 0)}, "keys before the own one")

_TYPES = (
    "no_mask",
    "padding",
    "causal",
    "padding_causal",
    "causal_bottom_right",
    "padding_causal_bottom_right",
    "arbitrary",
)
_KNOWN = ("attention_mask", "attn_mask_type", "window_size", "bottom_right_diagonal")


@dataclass(frozen=True)
class _Band:
    """What causal and window_size come to: keys beside the own one, ``NO_BOUND`` for all, and where it is."""

    left: int
    right: int
    corner: Corner

    def rule(self) -> Mask | None:
        """Return the rule that shows it; None when there is none."""
        return band_of(self.left, self.right, self.corner)

    def dense(self, q_lens: Tensor, k_lens: Tensor, q_len: int, k_len: int) -> Mask:
        """Return it as a tensor, where bottom-right is the last real key of each sample: lengths [B]."""
        first = k_lens - q_lens if self.corner == "bottom-right" else torch.zeros_like(k_lens)
        distance = torch.arange(k_len) - torch.arange(q_len)[:, None] - first[:, None, None, None]
        left = bound(self.left)
        return given(in_band(distance, None if left is None else -left, bound(self.right)))


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read the type, and ``attention_mask`` where the type uses it; a mask alone is an arbitrary one."""
    found = take_known(arguments, _KNOWN, NAME)
    kind, attention_mask = found["attn_mask_type"], found["attention_mask"]
    kind = _type_of(("causal" if attention_mask is None else "arbitrary") if kind is None else kind)
    band = _band_of(kind, found["window_size"], found["bottom_right_diagonal"])
    if "padding" in kind or kind == "arbitrary":
        if attention_mask is None:
            raise SoftlookupError(
                f"{NAME}: this type needs a mask.",
                expected="attention_mask=..., True = masked out",
                got=f"attn_mask_type={kind!r} alone",
            )
        if "padding" in kind:
            return Reading(_padded(attention_mask, band))
        return Reading(both(given(~_bool(attention_mask)), _placed(band, sizes)))
    return Reading(_placed(band, sizes))


def as_type(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it with a type and a window, and padding with a mask of one row."""
    q_len, k_len = sizes.of("q_len", "a type of mask"), sizes.of("k_len", "a type of mask")
    parts = parts_of(mask, sizes)
    arguments = _type_and_window(parts, q_len, k_len)
    padded = parts.keys is None or parts.lengths is not None
    if arguments is None or not padded or parts.hides - {"low", "high", "keys"}:
        return Spelling({"attn_mask_type": "no_mask"}, ("everything but a band and padding at the end",))
    if parts.lengths is not None:
        lengths = torch.tensor(parts.lengths).expand(sizes.batch_size or len(parts.lengths))
        queries = torch.zeros(len(lengths), 1, 1, q_len, dtype=torch.bool)
        keys = torch.arange(k_len) >= lengths[:, None, None, None]
        causal = arguments["attn_mask_type"] == "causal"
        kind = "padding_causal" if causal else "padding"
        arguments |= {"attn_mask_type": kind, "attention_mask": (queries, keys)}
    return Spelling(arguments)


def as_arbitrary(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool tensor, True = masked out."""
    return Spelling({"attn_mask_type": "arbitrary", "attention_mask": ~dense_of(mask, sizes)})


FORMS = {"type": as_type, "arbitrary": as_arbitrary}


def _type_and_window(parts: Parts, q_len: int, k_len: int) -> dict[str, Any] | None:
    """Return the type without padding, and the window; None when no window says the band."""
    low, high = parts.low, parts.high
    corners = {"causal": 0}
    if parts.lengths is None:  # else the corner at the end is the last real key of each sample
        corners["causal_bottom_right"] = k_len - q_len
    if low is None and high is None:
        return {"attn_mask_type": "no_mask"}
    for kind, own in corners.items():
        if high == own and (low is None or low <= own):
            window = {} if low is None else {"window_size": (own - low, 0)}
            return {"attn_mask_type": kind} | window
    for own in corners.values():
        left = own + q_len - 1 if low is None else own - low
        right = k_len - 1 - own if high is None else high - own
        if left >= 0 and right >= 0:
            where = {"window_size": (left, right), "bottom_right_diagonal": own != 0}
            return {"attn_mask_type": "no_mask"} | where
    return None


def _type_of(kind: Any) -> str:
    """Return a type by its one name; a comma stands for an underscore."""
    name = str(kind).replace(",", "_").replace("causal_padding", "padding_causal")
    if name not in _TYPES:
        raise SoftlookupError(
            f"{NAME}: there is no such attn_mask_type.",
            expected=", ".join(_TYPES),
            got=repr(kind),
            hint=did_you_mean(name, _TYPES),
        )
    return name


def _band_of(kind: str, window_size: Any, bottom_right_diagonal: Any) -> _Band:
    """Return what a type and a window show, as check_set_window_size of the library completes them."""
    left, right = window_of(window_size, NAME)
    if "causal" in kind:
        return _Band(left, 0, "bottom-right" if kind.endswith("bottom_right") else "top-left")
    if (left, right) == (-1, 0):
        right = NO_BOUND
    if (left == NO_BOUND) != (right == NO_BOUND):
        raise SoftlookupError(
            f"{NAME}: window_size is open on one side.",
            expected=f"two numbers from 0, or (-1, -1), with attn_mask_type={kind!r}",
            got=repr(window_size),
        )
    return _Band(left, right, "top-left" if bottom_right_diagonal is False else "bottom-right")


def _placed(band: _Band, sizes: Sizes) -> Mask:
    """Return the mask of a band without padding."""
    rule = band.rule()
    if rule is not None:
        return rule
    q_len, k_len = sizes.of("q_len", "this window"), sizes.of("k_len", "this window")
    return band.dense(torch.tensor([q_len]), torch.tensor([k_len]), q_len, k_len)


def _padded(attention_mask: Any, band: _Band) -> Mask:
    """Return the mask of padded queries and keys, and of a band that counts from the real ones."""
    tensors = attention_mask if isinstance(attention_mask, (tuple, list)) else (attention_mask,) * 2
    if len(tensors) != 2:
        raise SoftlookupError(
            f"{NAME}: attention_mask of padding is one tensor or two.",
            expected="[B, 1, 1, T], or a tuple of [B, 1, 1, T_q] and [B, 1, 1, T_k]",
            got=f"{len(tensors)} tensors",
        )
    queries, keys = (_real(_bool(it)) for it in tensors)
    visible = padding(keys.sum(dim=-1).flatten())
    if not bool(queries.all()):
        visible = visible & given(queries.transpose(2, 3))
    rule = band.rule() if bool(queries.all() and keys.all()) or band.corner == "top-left" else None
    if band.left == band.right == NO_BOUND:
        rule = everything()
    if rule is None:
        q_lens, k_lens = (it.sum(dim=-1).flatten() for it in (queries, keys))
        rule = band.dense(q_lens, k_lens, queries.shape[-1], keys.shape[-1])
    return both(visible, rule)


def _real(hidden: Tensor) -> Tensor:
    """Return which tokens are real, bool [B, 1, 1, T].

    Raises: SoftlookupError for other axes, and when padding stands before a real token.
    """
    if hidden.dim() != 4 or hidden.shape[1:3] != (1, 1):
        raise refuse_shape(hidden, NAME, "attention_mask", "bool [B, 1, 1, T] for padding, True = masked out")
    if bool((hidden[..., :-1] & ~hidden[..., 1:]).any()):
        raise SoftlookupError(
            f"{NAME}: padding stands before a real token.",
            expected="real tokens first: kernels only count them",
            got=f"bool {list(hidden.shape)} with True before False",
            hint="attn_mask_type='arbitrary'",
        )
    return ~hidden


def _bool(value: Any) -> Tensor:
    tensor = as_tensor(value, NAME)
    if tensor.dtype != torch.bool or tensor.dim() > 4:
        raise refuse_shape(tensor, NAME, "attention_mask", "bool of at most four axes, True = masked out")
    return tensor
