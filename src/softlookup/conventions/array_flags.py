"""Arguments that JAX, flax, Keras and ONNX share: masks, biases, and flags beside them for bands and lengths.

What one of them hides is hidden. A band shows key j to query i where low <= j - i <= high, see ``parts``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.parts import Parts, band_rule, in_band, parts_of
from softlookup.conventions.spelling import Reading, Sizes, Spelling, refuse_shape
from softlookup.conventions.tensors import as_tensor, everything, from_additive, given
from softlookup.masks import AllOf, Mask, padding
from softlookup.terms import Corner


def band(low: int | None, high: int | None, sizes: Sizes) -> Mask | None:
    """Return the mask that shows low <= j - i <= high, as a rule where there is one; None is no bound.

    Raises: SoftlookupError when no rule says it and the lengths are not known.

    >>> band(-2, 0, Sizes())
    sliding_window(2, 'lookback')
    """
    if low is None and high is None:
        return None
    corners: dict[Corner, int] = {"top-left": 0}
    if sizes.q_len and sizes.k_len:
        corners["bottom-right"] = sizes.k_len - sizes.q_len
    for corner, own in corners.items():
        rule = band_rule(None if low is None else own - low, None if high is None else high - own, corner)
        if rule is not None:
            return rule
    q_len, k_len = sizes.of("q_len", "a band without a name"), sizes.of("k_len", "a band without a name")
    return given(in_band(torch.arange(k_len) - torch.arange(q_len)[:, None], low, high))


def four_axes(array: Any, whose: str, argument: str) -> Tensor:
    """Return an array as a tensor of at most four axes.

    Raises: SoftlookupError for more of them.
    """
    tensor = as_tensor(array, whose)
    if tensor.dim() > 4:
        expected = "at most four axes, that broadcast to [B, H, T_q, T_k]"
        raise refuse_shape(tensor, whose, argument, expected)
    return tensor


def seen_under(bias: Any, whose: str, argument: str) -> Reading:
    """Return what numbers leave visible that are added to the scores; bool and integers are added too.

    Raises: SoftlookupError for more than four axes, and for nan and +inf.
    """
    tensor = four_axes(bias, whose, argument)
    shown, lost = from_additive(tensor if tensor.dtype.is_floating_point else tensor.float(), whose)
    return Reading(given(shown), lost)


def beside_bias(masks: Iterable[Mask | None], bias: Any, whose: str) -> Reading:
    """Return what all masks show and a bias, if there is one, leaves visible."""
    if bias is None:
        return Reading(joined(masks))
    under_bias = seen_under(bias, whose, "bias")
    return Reading(joined([*masks, under_bias.mask]), under_bias.lost)


def lengths_of(tensor: Tensor, whose: str, argument: str) -> list[int]:
    """Return integers [B] as a list.

    Raises: SoftlookupError for anything else.
    """
    if tensor.dim() != 1 or tensor.dtype not in (torch.int32, torch.int64):
        raise refuse_shape(tensor, whose, argument, "integers [B], the number of real tokens of each sample")
    return [int(length) for length in tensor.tolist()]


def first_keys(lengths: list[int], sizes: Sizes) -> Mask:
    """Return the mask that shows each sample so many keys; a length beyond the keys shows all of them."""
    return padding(
        [max(0, length if sizes.k_len is None else min(length, sizes.k_len)) for length in lengths]
    )


def joined(masks: Iterable[Mask | None]) -> Mask:
    """Return what all masks show; None hides nothing.

    Raises: SoftlookupError when two are for different sizes.
    """
    some = [mask for mask in masks if mask is not None]
    return reduce(and_, some) if some else everything()


def causal_alone(argument: str, mask: Mask, sizes: Sizes, of_type: type[int] = bool) -> Spelling:
    """Return a mask as one flag that is causal from the first key, or the flag unset and what is lost."""
    parts = parts_of(mask, sizes)
    is_causal = parts.high == 0
    beyond = parts.hides - ({"high"} if is_causal else set())
    return Spelling({argument: of_type(is_causal)}, ("everything but the causal rule",) if beyond else ())


def lengths_for(parts: Parts, sizes: Sizes) -> list[int] | None:
    """Return how many keys each of B samples has; None where it is no right padding, or B is not known."""
    if parts.lengths is None:
        return None
    if len(parts.lengths) > 1:
        return list(parts.lengths)
    return None if sizes.batch_size is None else [*parts.lengths] * sizes.batch_size


def unsaid(mask: Mask, said: Iterable[str], sizes: Sizes) -> Mask | None:
    """Return what is left of a mask once flags say some of its parts: None for nothing, itself for all of it.

    said: names as in ``Parts.hides``
    """
    each = mask.parts if isinstance(mask, AllOf) else (mask,)
    left = [part for part in each if not parts_of(part, sizes).hides <= frozenset(said)]
    if len(left) == len(each):
        return mask
    return joined(left) if left else None
