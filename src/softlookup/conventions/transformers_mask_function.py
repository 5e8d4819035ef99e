"""Mask functions of transformers.masking_utils, as sdpa_mask, eager_mask and create_causal_mask take them.

    mask_function: function
    allow_is_causal_skip=False

In its words: a mask function of (batch_idx, head_idx, q_idx, kv_idx) is True where the query may look at
the key. sdpa_mask, eager_mask and flex_attention_mask take one as mask_function, causal_mask_function
unless said, and add q_offset and kv_offset to the indices. create_causal_mask and create_bidirectional_mask
begin with their own function, join or_mask_function by or, then and_mask_function by and; there q_idx
counts from the first token in the cache. sdpa_mask may return None where the model's causal flag is enough.
Beyond its words: it does not look whether mask_function is causal before it does so, and equal lengths
without padding give None for every function, unless allow_is_causal_skip=False. Only head 0 is asked, and
its answer is for all. A mask_function is asked about tensors of indices that broadcast, and must answer
with four axes; the other two are asked one index at a time, by vmap.

Lost when written: what differs between heads. or_mask_function and and_mask_function are written as the
same function, which leaves that function whatever the model begins with.

Lost when read: what a function says of other heads than the first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.flex_positions import ask_everywhere, needed_sizes
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import dense_of, given
from softlookup.conventions.transformers_calls import attend_by, decoder_mask
from softlookup.fused.flex import MaskMod, mask_mod_of
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

NAME = "transformers mask_function"
ALSO = ("transformers masking_utils",)
WORDS = "transformers 5.24.0"
CALL = "sdpa_mask(batch_size, q_length, kv_length, {})"
TAKES = (Takes("mask_function", "allowed", "bool", ()),)  # a function: no tensor of any shape
NEEDS = ("transformers",)

_OF_MAKERS = ("mask_function", "q_offset", "kv_offset")  # of sdpa_mask, eager_mask, flex_attention_mask
_OF_MODELS = ("or_mask_function", "and_mask_function")  # of create_causal_mask


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read a ``mask_function`` with its offsets, or what ``create_causal_mask`` joins to causal."""
    found = take_known(arguments, (*_OF_MAKERS, *_OF_MODELS, "allow_is_causal_skip"), NAME)
    of_makers, of_models = (
        [name for name in names if found[name] is not None] for names in (_OF_MAKERS, _OF_MODELS)
    )
    if of_makers and of_models:
        raise SoftlookupError(
            f"{NAME}: no function takes {of_makers[0]} and {of_models[0]}.",
            expected="mask_function and offsets, of sdpa_mask, or the other two, of create_causal_mask",
            got=", ".join(arguments),
        )
    if of_models:
        joined = _joined_to_causal(found["or_mask_function"], found["and_mask_function"])
        return _answers(joined, _tokens_before(sizes), 0, sizes)
    asked = _causal if found["mask_function"] is None else found["mask_function"]
    return _answers(asked, found["q_offset"] or 0, found["kv_offset"] or 0, sizes)


def as_mask_function(mask: Mask, sizes: Sizes) -> Spelling:
    """A function for sdpa_mask, eager_mask and flex_attention_mask, called without offsets."""
    function, lost = _function_of(mask, sizes, 0)
    return Spelling({"mask_function": function, "allow_is_causal_skip": False}, lost)


def as_joined(mask: Mask, sizes: Sizes) -> Spelling:
    """Two functions for create_causal_mask and create_bidirectional_mask: (theirs | ours) & ours is ours."""
    function, lost = _function_of(mask, sizes, _tokens_before(sizes))
    return Spelling({"or_mask_function": function, "and_mask_function": function}, lost)


FORMS = {"mask_function": as_mask_function, "or and and": as_joined}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Let ``sdpa_mask`` or ``create_causal_mask`` make the mask, and attend by ``sdpa``."""
    from transformers.masking_utils import sdpa_mask

    if any(name in arguments for name in _OF_MODELS):
        made = decoder_mask(q, k, None, "sdpa", **arguments)
    else:
        made = sdpa_mask(q.shape[0], q.shape[2], k.shape[2], **arguments)
    return attend_by("sdpa", (q, k, v), made, is_causal=True)


def _answers(function: Callable[..., Any], q_offset: int, kv_offset: int, sizes: Sizes) -> Reading:
    """Return what a function says of all positions in head 0, which is the only one that is asked about."""

    def at_offsets(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Any:
        return function(b, h, i + q_offset, j + kv_offset)

    asked = needed_sizes(at_offsets, replace(sizes, num_heads=2), NAME)
    lost = ("what it says of other heads than the first: nobody asks",) if asked.num_heads == 2 else ()
    return Reading(given(ask_everywhere(at_offsets, replace(asked, num_heads=1), NAME)), lost)


def _function_of(mask: Mask, sizes: Sizes, q_offset: int) -> tuple[MaskMod, tuple[str, ...]]:
    lengths = sizes.of("q_len", "a mask function"), sizes.of("k_len", "a mask function")
    alike, lost = _same_for_heads(mask, sizes)
    mask_mod = mask_mod_of(alike, *lengths)

    def mask_function(batch_idx: Tensor, head_idx: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        shown = mask_mod(batch_idx, head_idx, q_idx - q_offset, kv_idx)
        return shown & (kv_idx >= 0)  # so that it has as many axes as the indices

    return mask_function, lost


def _same_for_heads(mask: Mask, sizes: Sizes) -> tuple[Mask, tuple[str, ...]]:
    """Return a mask that shows every head what some head sees, and in words what that loses."""
    if "H" not in mask.axes:
        return mask, ()
    seen = dense_of(mask, sizes)
    by_some = seen.any(dim=1, keepdim=True)
    alike = torch.equal(seen, by_some.expand_as(seen))
    return given(by_some), () if alike else ("what differs between heads: only head 0 is asked about",)


def _joined_to_causal(or_function: Any, and_function: Any) -> MaskMod:
    def joined(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        shown = _causal(b, h, i, j)
        if or_function is not None:
            shown = shown | or_function(b, h, i, j)
        return shown if and_function is None else shown & and_function(b, h, i, j)

    return joined


def _causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return j <= i


def _tokens_before(sizes: Sizes) -> int:
    """Return how many tokens of the keys were in the cache before the queries."""
    return max(0, sizes.of("k_len", "a mask function") - sizes.of("q_len", "a mask function"))
