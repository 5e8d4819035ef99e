"""jax.nn.dot_product_attention of JAX.

    is_causal=True
    key_value_seq_lengths=[3, 2]

In its words: mask is bool, True where the key takes part in attention; other dtypes are refused. bias is
added to the scores, so that bool, 0 and 1 in it hide nothing. Both broadcast to [B, H, T_q, T_k]; missing
axes are put in front, and q, k and v are [B, T, H, d]. is_causal starts at the first key.
local_window_size=(left, right) counts keys before and behind its own, which is seen too; one number is both
sides, and is_causal cuts off the right one. key_value_seq_lengths, int32 [B], hides the keys from there on.
Queries from query_seq_lengths on see nothing and get zeros. Everything holds together: a key is hidden where
one of them hides it. A query without any key gets the mean of all values, and nan where bias is -inf at all
keys.

Lost when written: nothing. Windows below the first key's diagonal are written as a mask.

Lost when read: a bias that is neither 0 nor hides is no visibility.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.array_flags import (
    band,
    beside_bias,
    causal_alone,
    first_keys,
    four_axes,
    lengths_for,
    lengths_of,
    unsaid,
)
from softlookup.conventions.parts import parts_of
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    take_known,
)
from softlookup.conventions.tensors import arrays_in, as_array, as_tensor, dense_of, given, to_additive
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

NAME = "jax.nn.dot_product_attention"
ALSO = ("jax",)
WORDS = "jax 0.10.2"
CALL = "jax.nn.dot_product_attention(q, k, v, {})"
TAKES = (
    Takes("mask", "allowed", "bool", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("bias", "additive", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
)
NEEDS = ("jax",)
CAUSAL = {"is_causal": True}
WINDOW = ({"local_window_size": 3}, "keys on each side: 7 are seen")

_KNOWN = ("mask", "bias", "is_causal", "query_seq_lengths", "key_value_seq_lengths", "local_window_size")


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read all arguments about visibility; what one of them hides is hidden."""
    found = take_known(arguments, _KNOWN, NAME)
    left, right = _window_of(found["local_window_size"])
    if found["is_causal"]:
        right = 0 if right is None else min(right, 0)
    visible: list[Mask | None] = [band(None if left is None else -left, right, sizes)]
    if found["mask"] is not None:
        visible.append(given(_mask_of(found["mask"])))
    for name in ("query_seq_lengths", "key_value_seq_lengths"):
        if found[name] is not None:
            lengths = lengths_of(as_tensor(found[name], NAME), NAME, name)
            of_keys = name == "key_value_seq_lengths"
            visible.append(first_keys(lengths, sizes) if of_keys else _first_queries(lengths, sizes))
    return beside_bias(visible, found["bias"], NAME)


def as_causal(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it with ``is_causal``, for which cudnn skips what is hidden."""
    return causal_alone("is_causal", mask, sizes)


def as_flags(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it without any mask: ``is_causal``, a window, the lengths of the keys."""
    arguments, said = _flags(mask, sizes)
    beyond = parts_of(mask, sizes).hides - said
    lost = ("what is neither a window around the diagonal of the first key nor the lengths of B samples",)
    return Spelling(arguments, lost if beyond else ())


def as_flags_and_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """The flags, and a bool mask for what they do not say."""
    arguments, said = _flags(mask, sizes)
    rest = unsaid(mask, said, sizes)
    if rest is mask:
        return as_mask(mask, sizes)
    return Spelling(arguments if rest is None else arguments | {"mask": as_array(dense_of(rest, sizes))})


def as_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool array, True = may look."""
    return Spelling({"mask": as_array(dense_of(mask, sizes))})


def as_bias(mask: Mask, sizes: Sizes) -> Spelling:
    """A float32 array of 0 and -inf."""
    return Spelling({"bias": as_array(to_additive(dense_of(mask, sizes)))})


FORMS = {
    "is_causal": as_causal,
    "flags": as_flags,
    "flags and mask": as_flags_and_mask,
    "mask": as_mask,
    "bias": as_bias,
}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call it, on the CPU."""
    import jax

    theirs = arrays_in(arguments)
    with jax.default_device(jax.devices("cpu")[0]):
        inputs = (jax.numpy.asarray(it.transpose(1, 2).numpy()) for it in (q, k, v))
        output = jax.nn.dot_product_attention(*inputs, **theirs)
    return as_tensor(output, NAME).transpose(1, 2)


def _flags(mask: Mask, sizes: Sizes) -> tuple[dict[str, Any], set[str]]:
    """Return flags, and which parts of the mask they say; no number of them is negative."""
    parts = parts_of(mask, sizes)
    left = -parts.low if parts.low is not None and parts.low <= 0 else None
    right = parts.high if parts.high is not None and parts.high >= 0 else None
    arguments: dict[str, Any] = {"is_causal": True} if right == 0 else {}
    if left is not None or right:
        all_left = sizes.of("q_len", "a window") - 1 if left is None else left
        all_right = sizes.of("k_len", "a window") - 1 if right is None else right
        arguments["local_window_size"] = (all_left, all_right)
    said = {name for name, reach in (("low", left), ("high", right)) if reach is not None}
    lengths = lengths_for(parts, sizes)
    if lengths is not None:
        arguments["key_value_seq_lengths"] = as_array(torch.tensor(lengths, dtype=torch.int32))
        said.add("keys")
    return arguments, said


def _window_of(window: Any) -> tuple[int | None, int | None]:
    """Return how many keys before and behind its own a query sees; None is no bound."""
    if window is None:
        return None, None
    if isinstance(window, int):
        return window, window
    if isinstance(window, (tuple, list)) and [type(number) for number in window] == [int, int]:
        return window[0], window[1]
    raise SoftlookupError(
        f"{NAME}: local_window_size does not look like one.",
        expected="(left, right), whole numbers, or one number for both",
        got=repr(window),
    )


def _mask_of(mask: Any) -> Tensor:
    tensor = four_axes(mask, NAME, "mask")
    if tensor.dtype != torch.bool:
        raise SoftlookupError(
            f"{NAME}: a mask that is not bool is refused.",
            expected="bool, True = may look",
            got=f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}",
            hint="numbers that are added to the scores are its bias; 0 and 1: source='1 = keep'",
        )
    return tensor


def _first_queries(lengths: list[int], sizes: Sizes) -> Mask:
    i = torch.arange(sizes.of("q_len", "query_seq_lengths"))
    return given((i < torch.tensor(lengths)[:, None])[:, None, :, None])
