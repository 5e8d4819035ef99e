"""Attention, the operator of ONNX, from opset 23 on.

    is_causal=1
    attn_mask: bool [2, 1, 3, 3], 1 = may look
    [0, 0]
    1 1 1
    1 1 1
    1 1 1
    [1, 0]
    1 1 .
    1 1 .
    1 1 .

In its words: attn_mask is bool, True where the key takes part in attention, or a float that is added to the
scores; integers are added too, so that 0 and 1 hide nothing. It broadcasts to [B, H, T_q, T_k], T_k being
past and new keys. Where its last axis is shorter than T_k, the keys behind are hidden: an axis of 1 shows the
first key at most, and is not repeated. A query stands behind past_key, where that is given, and otherwise at
the end of nonpad_kv_seqlen (opset 24): int64 [B], how many keys of each sample are real, beyond which all are
hidden. Without either, query 0 stands at key 0. is_causal and the windows (opset 25) count from there:
left_window_size keys before its own, right_window_size behind it, -1 for all. So nonpad_kv_seqlen moves the
causal diagonal of a padded sample, and its first queries see nothing. Everything holds together. A query
without any key gets zeros.

Lost when written: nothing. No form needs past keys: they are counted among the keys.

Lost when read: a float mask that is neither 0 nor hides is a bias, and no visibility. That the reference
evaluator takes all queries for the first one, where is_causal stands beside a mask of one row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.array_flags import (
    band,
    causal_alone,
    first_keys,
    four_axes,
    joined,
    lengths_for,
    lengths_of,
    unsaid,
)
from softlookup.conventions.parts import Parts, parts_of
from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.tensors import (
    as_array,
    as_tensor,
    dense_of,
    given,
    read_bool_or_additive,
    to_additive,
)
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

NAME = "ONNX Attention"
ALSO = ("onnx",)
WORDS = "onnx 1.23.2"
CALL = "Attention(Q, K, V, {})"
TAKES = (
    Takes("attn_mask", "allowed", "bool", ("T_q T_k", "B H T_q T_k"), broadcast=True),
    Takes("attn_mask", "additive", "float", ("T_q T_k", "B H T_q T_k"), broadcast=True),
)
NEEDS = ("onnx",)
CAUSAL = {"is_causal": 1}
WINDOW = ({"left_window_size": 3, "right_window_size": 0}, "keys before its own: 4 are seen")

_INPUTS = ("attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")  # after Q, K and V, in this order
_WINDOWS = ("left_window_size", "right_window_size")
_NO_BOUND = -1
_ONE_ROW = (
    "an attn_mask of one row beside is_causal: onnx's reference then takes all queries for the first one"
)


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read the mask, the flags, and where queries stand among the keys."""
    found = take_known(arguments, (*_INPUTS, "is_causal", *_WINDOWS), NAME)
    left, right = (_window_of(name, found[name]) for name in _WINDOWS)
    windows = (left, right) != (None, None)
    right = 0 if found["is_causal"] else right
    stands = [_length_of(found["past_key"])]
    visible: list[Mask | None] = []
    if found["nonpad_kv_seqlen"] is not None:
        if found["past_key"] is not None:
            raise SoftlookupError(
                f"{NAME}: past keys and nonpad_kv_seqlen exclude each other.",
                expected="past_key and past_value, or nonpad_kv_seqlen",
                got="both: the operator refuses them too",
            )
        lengths = lengths_of(as_tensor(found["nonpad_kv_seqlen"], NAME), NAME, "nonpad_kv_seqlen")
        visible.append(first_keys(lengths, sizes))
        if windows or found["is_causal"]:
            q_len = sizes.of("q_len", "a band beside nonpad_kv_seqlen")
            stands = [length - q_len for length in lengths]
    visible.append(_bands(stands, left, right, sizes))
    lost: tuple[str, ...] = ()
    if found["attn_mask"] is not None:
        tensor = four_axes(found["attn_mask"], NAME, "attn_mask")
        reading = read_bool_or_additive(tensor, NAME)
        visible.append(_padded(reading.mask, sizes))
        one_row = sizes.q_len != 1 and tensor.shape[-2:-1] in ((), (1,))
        lost = (*reading.lost, *(_ONE_ROW,) * (one_row and bool(found["is_causal"]) and not windows))
    return Reading(joined(visible), lost)


def as_causal(mask: Mask, sizes: Sizes) -> Spelling:
    """Say it with ``is_causal``."""
    return causal_alone("is_causal", mask, sizes, int)


def as_lengths(mask: Mask, sizes: Sizes) -> Spelling:
    """``nonpad_kv_seqlen`` of opset 24, and ``is_causal`` where it then starts at the right key."""
    return _flags(mask, sizes, windows=False)


def as_windows(mask: Mask, sizes: Sizes) -> Spelling:
    """The windows of opset 25, and ``nonpad_kv_seqlen`` where they then stand at the right key."""
    return _flags(mask, sizes, windows=True)


def as_causal_and_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """``is_causal``, and a bool mask for what it does not say."""
    rest = unsaid(mask, {"high"}, sizes)
    if rest is mask or parts_of(mask, sizes).high != 0:
        return as_bool(mask, sizes)
    if rest is None:
        return Spelling({"is_causal": 1})
    # In full: beside one row, which would do, the reference evaluator takes all queries for the first one.
    every_row = _with_all_keys(rest, sizes).expand(-1, -1, sizes.of("q_len", "is_causal"), -1)
    return Spelling({"is_causal": 1, "attn_mask": as_array(every_row.contiguous())})


def as_bool(mask: Mask, sizes: Sizes) -> Spelling:
    """A bool tensor, True = may look."""
    return Spelling({"attn_mask": as_array(_with_all_keys(mask, sizes))})


def as_additive(mask: Mask, sizes: Sizes) -> Spelling:
    """A float32 tensor of 0 and -inf."""
    return Spelling({"attn_mask": as_array(to_additive(_with_all_keys(mask, sizes)))})


FORMS = {
    "is_causal": as_causal,
    "nonpad_kv_seqlen": as_lengths,
    "windows": as_windows,
    "is_causal and bool": as_causal_and_bool,
    "bool": as_bool,
    "additive": as_additive,
}


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Evaluate a model of this one node with ONNX's reference, in the first opset that has the arguments."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    inputs = {"Q": q.numpy(), "K": k.numpy(), "V": v.numpy()}
    inputs |= {name: as_array(as_tensor(arguments[name], NAME)) for name in _INPUTS if name in arguments}
    attributes = {name: it for name, it in arguments.items() if name not in _INPUTS}
    names = [name if name in inputs else "" for name in ("Q", "K", "V", *_INPUTS)]
    while not names[-1]:
        names.pop()
    make = onnx.helper
    node = make.make_node("Attention", names, ["Y"], **attributes)
    typed = [
        make.make_tensor_value_info(name, make.np_dtype_to_tensor_dtype(it.dtype), it.shape)
        for name, it in inputs.items()
    ]
    output = make.make_tensor_value_info("Y", onnx.TensorProto.FLOAT, q.shape)
    opset = (
        25 if any(name in arguments for name in _WINDOWS) else 24 if "nonpad_kv_seqlen" in arguments else 23
    )
    graph = make.make_graph([node], "attention", typed, [output])
    model = make.make_model(graph, opset_imports=[make.make_opsetid("", opset)])
    onnx.checker.check_model(model, full_check=True)
    return as_tensor(ReferenceEvaluator(model).run(None, inputs)[0], NAME)


def _flags(mask: Mask, sizes: Sizes, *, windows: bool) -> Spelling:
    """Say a mask with flags, with queries at the first key or at the end of real keys, what says more."""
    parts = parts_of(mask, sizes)
    lengths = lengths_for(parts, sizes)
    if parts.keys is None and sizes.batch_size is not None and parts.hides & {"low", "high"}:
        lengths = [sizes.of("k_len", "a band")] * sizes.batch_size  # moves the queries, and hides nothing
    arguments, said = _band_flags(parts, 0, windows)
    if lengths is not None:
        stands = (
            {length - sizes.of("q_len", "a band") for length in lengths} if parts.hides - {"keys"} else {0}
        )
        moved, also_said = _band_flags(parts, stands.pop(), windows) if len(stands) == 1 else ({}, set())
        if len(also_said | {"keys"} & parts.hides) > len(said):
            said = also_said | {"keys"}
            arguments = moved | {"nonpad_kv_seqlen": as_array(torch.tensor(lengths))}
    lost = ("what is neither a band from the queries' place among the keys nor the lengths of B samples",)
    return Spelling(arguments, lost if parts.hides - said else ())


def _band_flags(parts: Parts, stands: int, windows: bool) -> tuple[dict[str, Any], set[str]]:
    """Return the flags of a band, and which of its ends they say, when query 0 stands at this key."""
    arguments: dict[str, Any] = {}
    said = set()
    if parts.high == stands:
        arguments["is_causal"] = 1
        said.add("high")
    elif windows and parts.high is not None and parts.high > stands:
        arguments["right_window_size"] = parts.high - stands
        said.add("high")
    if windows and parts.low is not None and parts.low <= stands:
        arguments["left_window_size"] = stands - parts.low
        said.add("low")
    return arguments, said


def _bands(stands: Sequence[int], left: int | None, right: int | None, sizes: Sizes) -> Mask | None:
    """Return the band around where the queries of each sample stand: once, or one for each sample."""
    bands = [
        band(None if left is None else it - left, None if right is None else it + right, sizes)
        for it in ([stands[0]] if len(set(stands)) == 1 else stands)
    ]
    if len(bands) == 1:
        return bands[0]
    q_len, k_len = (sizes.of(name, "a band for each sample") for name in ("q_len", "k_len"))
    return given(torch.cat([it.dense(q_len, k_len) for it in bands if it is not None]))


def _padded(mask: Mask, sizes: Sizes) -> Mask:
    """Hide the keys that an attn_mask is too short for; an axis of 1 is repeated by nobody."""
    allowed = dense_of(mask, sizes)
    has = allowed.shape[-1]
    k_len = sizes.of("k_len", "an attn_mask of one column") if has == 1 else sizes.k_len or has
    if has >= k_len:
        return mask
    return given(torch.nn.functional.pad(allowed, (0, k_len - has)))


def _with_all_keys(mask: Mask, sizes: Sizes) -> Tensor:
    return dense_of(mask, sizes).expand(-1, -1, -1, sizes.of("k_len", "an attn_mask")).contiguous()


def _window_of(name: str, size: Any) -> int | None:
    """Return how many keys to one side of its own a query sees; None is no bound."""
    if size is None or size == _NO_BOUND:
        return None
    if type(size) is int and size >= 0:
        return size
    raise SoftlookupError(
        f"{NAME}: {name} does not look like one.",
        expected="a whole number of at least 0, or -1 for no bound",
        got=repr(size),
    )


def _length_of(past_key: Any) -> int:
    """Return how many keys the cache holds: past_key is [B, H_kv, past, d]."""
    if past_key is None:
        return 0
    shape: Any = getattr(past_key, "shape", ())
    if len(shape) != 4:
        raise SoftlookupError(
            f"{NAME}: past_key does not look like one.",
            expected="[B, H_kv, past, d_head]",
            got=str(list(shape)) if shape else type(past_key).__name__,
        )
    return int(shape[2])
