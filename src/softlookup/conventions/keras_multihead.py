"""keras.layers.MultiHeadAttention of Keras.

    use_causal_mask=True
    value_mask: bool [2, 3], 1 = may look
    1 1 1
    1 1 .

In its words: attention_mask is bool [B, T_q, T_k], 1 = may look. Any axis may be 1 and B may be missing; with
four axes, [B, H, T_q, T_k], heads differ. It is cast to bool: every number but 0 shows the key, so a mask of
0 and -inf, which is meant to be added, shows just what it should hide. value_mask and key_mask are [B, T_k]
and hide keys, the same for both. use_causal_mask starts at the first key. sliding_window is said when the
layer is made: a number counts the keys from its own on, to both sides, and use_causal_mask leaves those
before. Everything holds together. Inputs carry masks of their own, such as Embedding(mask_zero=True) makes,
which become query_mask and value_mask. query_mask, [B, T_q], hides all keys from a query; only the mask that
query carries counts, for the argument of this name is overwritten. Beside an attention_mask of four axes,
samples of the other masks are lined up with heads. A query without any key gets the mean of all values, and
zeros with return_attention_scores=True.

Lost when written: nothing. sliding_window, which is no argument of the call, is written as an attention_mask.

Lost when read: that samples were lined up with heads, which nobody means.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.array_flags import band, causal_alone, four_axes, joined, unsaid
from softlookup.conventions.parts import parts_of
from softlookup.conventions.spelling import (
    Arguments,
    Reading,
    Sizes,
    Spelling,
    Takes,
    refuse_shape,
    take_known,
)
from softlookup.conventions.tensors import arrays_in, as_array, as_tensor, dense_of, given
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

NAME = "keras.layers.MultiHeadAttention"
ALSO = ("keras",)
WORDS = "keras 3.15.1"
CALL = "keras.layers.MultiHeadAttention(num_heads, key_dim)(x_q, x_v, x_k, {})"
TAKES = (
    Takes("attention_mask", "allowed", "bool", ("T_q T_k", "B T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("attention_mask", "allowed", "int", ("T_q T_k", "B T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("attention_mask", "allowed", "float", ("T_q T_k", "B T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("value_mask", "allowed", "bool", ("B T_k",), broadcast=True),
    Takes("key_mask", "allowed", "bool", ("B T_k",), broadcast=True),
)
NEEDS = ("keras",)
CAUSAL = {"use_causal_mask": True}
WINDOW = ({"sliding_window": 3}, "keys on each side, its own included: 5 are seen")

_OF_TOKENS = ("query_mask", "value_mask", "key_mask")


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read the masks, ``use_causal_mask``, and the ``sliding_window`` that the layer was made with."""
    known = ("attention_mask", *_OF_TOKENS, "use_causal_mask", "sliding_window")
    found = take_known(arguments, known, NAME)
    reach = _reach_of(found["sliding_window"])
    visible = [band(None if reach is None else -reach, 0 if found["use_causal_mask"] else reach, sizes)]
    by_heads = False
    if found["attention_mask"] is not None:
        allowed = _attention_mask_of(found["attention_mask"])
        by_heads = allowed.dim() == 4
        visible.append(given(allowed[:, None] if allowed.dim() == 3 else allowed))  # [B, 1, T_q, T_k]
    lined_up = []
    for name in _OF_TOKENS:
        if found[name] is not None:
            tokens = _tokens_of(found[name], name)
            several = tokens[:, :, None] if name == "query_mask" else tokens[:, None]  # as [B, T_q, T_k]
            visible.append(given(several if by_heads else several[:, None]))
            lined_up += [name] if by_heads and len(tokens) > 1 else []
    taken_for = "the samples: beside an attention_mask of four axes they are taken for heads"
    lost = tuple(f"{name}, {taken_for}" for name in lined_up)
    return Reading(joined(visible), lost)


def as_causal(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it with ``use_causal_mask``, for which the backend's own causal kernel runs."""
    return causal_alone("use_causal_mask", mask, sizes)


def as_flags(mask: Mask, sizes: Sizes) -> Spelling:
    """``use_causal_mask``, and a ``value_mask`` that hides keys."""
    arguments, said = _flags(mask, sizes)
    beyond = parts_of(mask, sizes).hides - said
    return Spelling(
        arguments, ("what is neither causal from the first key nor hides keys",) if beyond else ()
    )


def as_flags_and_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """``use_causal_mask`` and ``value_mask``, and an ``attention_mask`` for what they do not say."""
    arguments, said = _flags(mask, sizes)
    rest = unsaid(mask, said, sizes)
    if rest is not None and "H" in rest.axes and "value_mask" in arguments:
        del arguments["value_mask"]  # beside a mask for each head its samples are taken for heads
        rest = unsaid(mask, said - {"keys"}, sizes)
    if rest is mask:
        return as_mask(mask, sizes)
    return Spelling(arguments if rest is None else arguments | as_mask(rest, sizes).arguments)


def as_mask(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool array [B, T_q, T_k], or [B, H, T_q, T_k] where heads differ; True = may look."""
    allowed = dense_of(mask, sizes)
    return Spelling({"attention_mask": as_array(allowed[:, 0] if allowed.shape[1] == 1 else allowed)})


FORMS = {
    "use_causal_mask": as_causal,
    "use_causal_mask and value_mask": as_flags,
    "use_causal_mask, value_mask and attention_mask": as_flags_and_mask,
    "attention_mask": as_mask,
}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call the layer with identity projections, on PyTorch unless another backend was asked for."""
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    theirs = arrays_in(arguments)
    made_with = {"sliding_window": theirs.pop("sliding_window")} if "sliding_window" in theirs else {}
    B, H, T_q, d_head = q.shape
    # [B, H, T, d] -> [B, T, H*d]
    x_q, x_k, x_v = (it.transpose(1, 2).reshape(B, -1, H * d_head).numpy() for it in (q, k, v))
    layer = keras.layers.MultiHeadAttention(H, d_head, use_bias=False, **made_with)
    layer.build(x_q.shape, x_v.shape, x_k.shape)
    unchanged = torch.eye(H * d_head).numpy()
    into_heads, out_of_heads = (unchanged.reshape(it) for it in ((-1, H, d_head), (H, d_head, -1)))
    layer.set_weights([into_heads, into_heads, into_heads, out_of_heads])
    carried = theirs.pop("query_mask", None)
    query = x_q if carried is None else _carrying(x_q, carried)
    output = layer(query, x_v, x_k, **theirs)
    return as_tensor(keras.ops.convert_to_numpy(output), NAME).view(B, T_q, H, d_head).transpose(1, 2)


def _carrying(array: Any, mask: Any) -> Any:
    """Return a tensor of Keras that carries a mask, as the output of a layer with a mask does."""
    import keras

    class Carrying(keras.layers.Layer):  # type: ignore[misc]
        def call(self, inputs: Any) -> Any:
            return inputs * 1

        def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
            return keras.ops.convert_to_tensor(mask)

    return Carrying()(array)


def _flags(mask: Mask, sizes: Sizes) -> tuple[dict[str, Any], set[str]]:
    """Return flags, and which parts of the mask they say."""
    parts = parts_of(mask, sizes)
    arguments: dict[str, Any] = {"use_causal_mask": True} if parts.high == 0 else {}
    if parts.keys is not None:
        arguments["value_mask"] = as_array(parts.keys)
    return arguments, {"high", "keys"} if parts.high == 0 else {"keys"}


def _reach_of(window: Any) -> int | None:
    """Return how many keys a query sees on each side of its own; None is no bound."""
    if window is None:
        return None
    if type(window) is int and window > 0:
        return window - 1
    raise SoftlookupError(
        f"{NAME}: sliding_window does not look like one.",
        expected="a whole number of at least 1: the keys from its own on, to each side",
        got=repr(window),
    )


def _attention_mask_of(mask: Any) -> Tensor:
    tensor = four_axes(mask, NAME, "attention_mask")
    if tensor.dim() < 2:
        expected = "[T_q, T_k], [B, T_q, T_k] or [B, H, T_q, T_k]"
        raise refuse_shape(tensor, NAME, "attention_mask", expected)
    return tensor.bool()


def _tokens_of(mask: Any, name: str) -> Tensor:
    tensor = as_tensor(mask, NAME)
    if tensor.dim() != 2:
        raise refuse_shape(tensor, NAME, name, "[B, T_q]" if name == "query_mask" else "[B, T_k]")
    return tensor.bool()
