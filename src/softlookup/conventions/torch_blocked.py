"""Two blocked masks side by side, as nn.MultiheadAttention and the Transformer layers take them.

    an attention mask   bool [T_q, T_k] or [B*H, T_q, T_k], True = hidden; float is added to the scores
    a key mask          bool [B, T_k], True = hidden; float is added to the scores
    a hint              that the attention mask is the causal one

A key is hidden where either hides it. No axis broadcasts: [1, T_k] is refused where there are more queries or
samples. The hint is never written: the modules that look for it find it themselves, and with add_zero_attn it
hides the added key, which the mask does not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.array_flags import joined
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    Writer,
    refuse_shape,
    take_known,
)
from softlookup.conventions.tensors import as_tensor, dense_of, from_additive, full_of, given, shows_all
from softlookup.masks import AllOf, Mask, causal
from softlookup.terms import SoftlookupError


@dataclass(frozen=True)
class BlockedMasks:
    """How one module names its two masks and the hint; it reads them and writes them.

    hints: all names that the hint has
    to_itself: queries and keys are the same tokens, so they are equally many
    beside_a_bias: what else happens to a float mask that is a bias
    """

    api: str
    attn_mask: str
    key_mask: str
    hints: tuple[str, ...]
    to_itself: bool = False
    beside_a_bias: str = ""

    @property
    def takes(self) -> tuple[Takes, ...]:
        """What the two masks may be."""
        by_query, by_key = ("T_q T_k", "B*H T_q T_k"), ("T_k", "B T_k")
        return (
            Takes(self.attn_mask, "blocked", "bool", by_query),
            Takes(self.attn_mask, "additive", "float", by_query),
            Takes(self.key_mask, "blocked", "bool", by_key),
            Takes(self.key_mask, "additive", "float", by_key),
        )

    @property
    def forms(self) -> dict[str, Writer]:
        """The writers, the cheapest first."""
        writers: dict[str, Writer] = {
            "keys": self.as_keys,
            "2-D": self.as_2d,
            "2-D and keys": self.as_both,
            "3-D": self.as_3d,
        }
        return {name: _only_square(writer) for name, writer in writers.items()} if self.to_itself else writers

    def read(self, arguments: Arguments, sizes: Sizes) -> Reading:
        """Read the attention mask, the key mask, and the hint, which only says what the mask says.

        Raises: SoftlookupError for a shape or dtype that the module refuses, and a hint without causal mask.
        """
        found = take_known(arguments, (self.attn_mask, self.key_mask, *self.hints), self.api)
        hinted = any(found[hint] for hint in self.hints)
        parts: list[Mask] = []
        lost: tuple[str, ...] = ()
        if found[self.attn_mask] is not None:
            allowed, lost = self._allowed(found[self.attn_mask], self.attn_mask)
            allowed = self._by_head(allowed, sizes)
            parts.append(self._hinted(allowed) if hinted else given(allowed))
        elif hinted:
            raise self._hint_alone()
        if found[self.key_mask] is not None:
            allowed, more = self._allowed(found[self.key_mask], self.key_mask)
            parts.append(given(self._by_sample(allowed, sizes)))
            lost += more
        if lost and self.beside_a_bias:
            lost += (self.beside_a_bias,)
        return Reading(joined(parts), lost)

    def as_keys(self, mask: Mask, sizes: Sizes) -> Spelling:
        """The key mask alone, a bool tensor [B, T_k], True = hidden."""
        keys, shared, own = _sorted(mask)
        lost = ["everything but hidden keys"] if shared or own else []
        if keys and _batch_size(keys, sizes) is None:
            return Spelling({}, ("hidden keys: [B, T_k] needs batch_size", *lost))
        return _written({self.key_mask: _blocked_keys(keys, sizes)}, lost)

    def as_2d(self, mask: Mask, sizes: Sizes) -> Spelling:
        """The attention mask alone, one bool tensor [T_q, T_k] for all, True = hidden."""
        keys, shared, own = _sorted(mask)
        own += [part for part in keys if "B" in part.axes]
        shared += [part for part in keys if "B" not in part.axes]
        lost = ["what differs between samples or heads"] if own else []
        return _written({self.attn_mask: _blocked_for_all(shared, sizes)}, lost)

    def as_both(self, mask: Mask, sizes: Sizes) -> Spelling:
        """The attention mask [T_q, T_k] for all, and the key mask [B, T_k]."""
        keys, shared, own = _sorted(mask)
        lost = ["what differs between samples or heads, other than hidden keys"] if own else []
        written = {
            self.attn_mask: _blocked_for_all(shared, sizes),
            self.key_mask: _blocked_keys(keys, sizes),
        }
        return _written(written, lost)

    def as_3d(self, mask: Mask, sizes: Sizes) -> Spelling:
        """The attention mask alone, a bool tensor [B*H, T_q, T_k]: head h of sample b is entry b * H + h."""
        batch_size = mask.sizes["B"] or sizes.of("batch_size", f"{self.attn_mask} of three axes")
        num_heads = mask.sizes["H"] or sizes.of("num_heads", f"{self.attn_mask} of three axes")
        blocked = ~full_of(mask, sizes).expand(batch_size, num_heads, -1, -1)
        return _written({self.attn_mask: blocked.flatten(0, 1)}, [])

    def _allowed(self, array: Any, argument: str) -> tuple[Tensor, tuple[str, ...]]:
        tensor = as_tensor(array, self.api)
        if tensor.dtype == torch.bool:
            return ~tensor, ()
        if tensor.dtype.is_floating_point:
            return from_additive(tensor, self.api)
        expected = "bool (True = hidden) or float (added to the scores)"
        raise refuse_shape(tensor, self.api, argument, expected)

    def _by_head(self, allowed: Tensor, sizes: Sizes) -> Tensor:
        """[T_q, T_k] as it is, [B*H, T_q, T_k] -> [B, H, T_q, T_k]."""
        expected = f"{_size(sizes.q_len, 'T_q')}, {_size(sizes.k_len, 'T_k')}]"
        expected = f"[{expected} or [{self._rows(sizes)}, {expected}"
        if not 2 <= allowed.dim() <= 3 or not _fits(allowed.shape[-2:], (sizes.q_len, sizes.k_len)):
            raise refuse_shape(allowed, self.api, self.attn_mask, expected)
        if allowed.dim() == 2:
            return allowed
        rows = allowed.shape[0]
        known = sizes.num_heads or (rows // sizes.batch_size if sizes.batch_size else None)
        num_heads = known or (1 if rows == 1 else sizes.of("num_heads", f"{self.attn_mask} [B*H, T_q, T_k]"))
        if rows % num_heads or not _fits((rows // num_heads,), (sizes.batch_size,)):
            raise refuse_shape(allowed, self.api, self.attn_mask, expected)
        return allowed.reshape(-1, num_heads, *allowed.shape[1:])

    def _by_sample(self, allowed: Tensor, sizes: Sizes) -> Tensor:
        """[B, T_k], or [T_k] of a single sample, -> [B, 1, 1, T_k]."""
        keys = allowed[None] if allowed.dim() == 1 else allowed
        if keys.dim() != 2 or not _fits(keys.shape, (sizes.batch_size, sizes.k_len)):
            expected = f"[{_size(sizes.batch_size, 'B')}, {_size(sizes.k_len, 'T_k')}]"
            raise refuse_shape(allowed, self.api, self.key_mask, expected)
        return keys[:, None, None]

    def _hinted(self, allowed: Tensor) -> Mask:
        """Return the causal rule for a mask that the hint tells of: the mask must say it too."""
        if not bool((allowed == causal().dense(*allowed.shape[-2:], device=allowed.device)).all()):
            raise SoftlookupError(
                f"{self.api}: {self.hints[0]}=True beside a mask that is not causal.",
                expected=f"a causal {self.attn_mask}, or no hint",
                got="a contradiction: PyTorch follows the mask on some paths and the hint on others",
            )
        return causal()

    def _hint_alone(self) -> SoftlookupError:
        return SoftlookupError(
            f"{self.api}: {self.hints[0]}=True hides nothing by itself.",
            expected=f"a causal {self.attn_mask} beside it",
            got="no mask: PyTorch raises, or in inference shows every key",
        )

    def _rows(self, sizes: Sizes) -> str:
        if sizes.batch_size and sizes.num_heads:
            return str(sizes.batch_size * sizes.num_heads)
        return "B*H"


def _only_square(writer: Writer) -> Writer:
    """Return a writer for tokens that attend to themselves: other queries than keys cannot be asked for."""

    @wraps(writer)
    def write(mask: Mask, sizes: Sizes) -> Spelling:
        if None not in (sizes.q_len, sizes.k_len) and sizes.q_len != sizes.k_len:
            return Spelling({}, ("queries other than the keys: here tokens attend to themselves",))
        return writer(mask, sizes)

    return write


def _written(masks: dict[str, Tensor | None], lost: list[str]) -> Spelling:
    return Spelling({name: it for name, it in masks.items() if it is not None}, tuple(lost))


def _sorted(mask: Mask) -> tuple[list[Mask], list[Mask], list[Mask]]:
    """Return the parts that hide keys, others that are the same for all samples and heads, and the rest."""
    keys: list[Mask] = []
    shared: list[Mask] = []
    own: list[Mask] = []
    for part in mask.parts if isinstance(mask, AllOf) else (mask,):
        if part.axes <= {"B", "T_k"}:
            keys += [] if shows_all(part) else [part]
        else:
            (own if part.axes & {"B", "H"} else shared).append(part)
    return keys, shared, own


def _batch_size(parts: list[Mask], sizes: Sizes) -> int | None:
    return next((part.sizes["B"] for part in parts if part.sizes["B"]), sizes.batch_size)


def _blocked_keys(parts: list[Mask], sizes: Sizes) -> Tensor | None:
    """bool [B, T_k], True = hidden; None where no part hides keys."""
    if not parts:
        return None
    batch_size = _batch_size(parts, sizes) or sizes.of("batch_size", "a key mask [B, T_k]")
    allowed = dense_of(joined(parts), sizes)[:, 0, 0]
    return ~allowed.expand(batch_size, sizes.of("k_len", "a key mask [B, T_k]"))


def _blocked_for_all(parts: list[Mask], sizes: Sizes) -> Tensor | None:
    """bool [T_q, T_k], True = hidden; None where no part hides anything."""
    return ~full_of(joined(parts), sizes)[0, 0] if parts else None


def _fits(shape: tuple[int, ...], sizes: tuple[int | None, ...]) -> bool:
    return all(size in (None, length) for length, size in zip(shape, sizes, strict=True))


def _size(said: int | None, axis: str) -> str:
    return axis if said is None else str(said)
