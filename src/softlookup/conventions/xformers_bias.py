"""xformers.ops.memory_efficient_attention and the classes of its attn_bias.

    attn_bias: float32 [2, 1, 3, 3], is added to the scores
    [0, 0]
       0 -inf -inf
       0    0 -inf
       0    0    0
    [1, 0]
       0 -inf -inf
       0    0 -inf
       0    0 -inf

In its words: q is [B, T_q, H, d]. attn_bias is added to the scores: a tensor of exactly [B, H, T_q, T_k],
which is not broadcast, or an object that kernels know and that materialize() makes a tensor of.
LowerTriangularMask is causal from the first key, LowerTriangularFromBottomRightMask from the last. Their
local kin count keys, the own one included, in window_size; LocalAttentionFromBottomRightMask(window_left,
window_right) counts them beside the own one. The BlockDiagonal classes take one row with the tokens of all
samples, B = 1: queries of a block see its keys only. PaddedKeys gives the keys of each block the same room,
of which the first ones are real, and counts causal and windows from the last real one.

Lost when written: nothing, as a tensor. As an object, what is no band, padding at the end or documents;
samples that differ lie in one row then: q.reshape(1, B * T_q, H, d), and k and v likewise.

Lost when read: the numbers of a bias. Paged keys, which lie in another order, are refused. Without
batch_size, blocks are the mask of their row; with it, of the samples that lie in it.
"""

from __future__ import annotations

from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

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
from softlookup.conventions.tensors import (
    as_tensor,
    dense_of,
    everything,
    from_additive,
    given,
    to_additive,
)
from softlookup.conventions.varlen_rows import NO_BOUND, Rows, rows_of
from softlookup.masks import Mask, causal, sliding_window
from softlookup.terms import SoftlookupError

NAME = "xformers"
ALSO = ("attn_bias", "memory_efficient_attention", "xformers.ops.memory_efficient_attention")
WORDS = "xformers 0.0.35"
CALL = "memory_efficient_attention(q, k, v, {})"
TAKES = (Takes("attn_bias", "additive", "float", ("B T_q T_k", "B H T_q T_k")),)
NEEDS = ("xformers",)  # for its classes; the call itself needs CUDA

_MISSING = (
    "everything: the classes of attn_bias come with xformers, which is not installed: pip install xformers"
)
_IN_BLOCKS = "a window that looks ahead, or lies in padded documents: there is no class for it"


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read ``attn_bias``: nothing, a tensor, or an object of their classes."""
    bias = take_known(arguments, ("attn_bias",), NAME)["attn_bias"]
    if bias is None and "attn_bias" in arguments:
        return Reading(everything())
    if hasattr(bias, "materialize"):
        return _read_object(bias, sizes)
    tensor = as_tensor(bias, NAME)
    if tensor.dim() not in (3, 4) or not tensor.dtype.is_floating_point:
        raise refuse_shape(
            tensor, NAME, "attn_bias", "floats [B, H, T_q, T_k] or [B, T_q, T_k], or their object"
        )
    allowed, lost = from_additive(tensor, NAME)
    return Reading(given(allowed if tensor.dim() == 4 else allowed[:, None]), lost)


def as_object(mask: Mask, sizes: Sizes) -> Spelling:
    """An object of their classes, for which kernels skip what is hidden; it needs xformers."""
    parts = parts_of(mask, sizes)
    if not parts.hides:
        return Spelling({"attn_bias": None})
    if find_spec("xformers") is None:
        return Spelling({"attn_bias": None}, (_MISSING,))
    import xformers.ops.fmha.attn_bias as classes

    if parts.hides == {"high"} and parts.high == 0:
        return Spelling({"attn_bias": classes.LowerTriangularMask()})
    rows, lost = rows_of(mask, sizes)
    if lost:
        return Spelling({"attn_bias": None}, lost)
    q_len, k_len = sizes.of("q_len", "a bias"), sizes.of("k_len", "a bias")
    samples = rows.q_bounds[-1] // q_len
    if rows.k_bounds[-1] == samples * k_len and len(rows.q_bounds) == samples + 1:
        return Spelling({"attn_bias": _for_all(rows, q_len, k_len, classes)})
    bias = _blocks(rows, samples, k_len, classes)
    return Spelling({"attn_bias": bias}, (_IN_BLOCKS,) if bias is None else ())


def as_additive(mask: Mask, sizes: Sizes) -> Spelling:
    """A float32 tensor of 0 and -inf, [B, H, T_q, T_k] in full; repeated entries share memory."""
    shape = [sizes.of(name, "attn_bias") for name in ("batch_size", "num_heads", "q_len", "k_len")]
    return Spelling({"attn_bias": to_additive(dense_of(mask, sizes)).expand(shape)})


FORMS = {"object": as_object, "additive": as_additive}


def _for_all(rows: Rows, q_len: int, k_len: int, classes: Any) -> Any:
    """Return the object for samples that are all alike, and that need no row."""
    match rows.left, rows.right:
        case (-1, -1):
            return None
        case (-1, 0):
            return classes.LowerTriangularFromBottomRightMask()
        case (left, 0):
            return classes.LowerTriangularFromBottomRightLocalAttentionMask(left + 1)
    return classes.LocalAttentionFromBottomRightMask(*_far_enough(rows, q_len, k_len))


def _blocks(rows: Rows, samples: int, k_len: int, classes: Any) -> Any:
    """Return the object for one row with all samples; None where there is no class for the window."""
    q_lens, k_lens = ([stop - start for start, stop in pairwise(it)] for it in (rows.q_bounds, rows.k_bounds))
    no_band, only_causal = (rows.left, rows.right) == (-1, -1), (rows.left, rows.right) == (-1, 0)
    if rows.k_bounds[-1] == samples * k_len:  # documents, whose queries and keys are the same tokens
        whole = classes.BlockDiagonalMask.from_seqlens(q_lens, k_lens)
        if rows.right == 0:
            return whole.make_causal() if only_causal else whole.make_local_attention(rows.left + 1)
        return whole if no_band else None
    if len(k_lens) == samples:
        if not no_band and not only_causal:
            reach = _far_enough(rows, *rows.longest)
            return classes.BlockDiagonalLocalAttentionPaddedKeysMask.from_seqlens_local(
                q_lens, k_len, k_lens, *reach
            )
        offset = classes.BlockDiagonalCausalWithOffsetPaddedKeysMask
        padded = classes.BlockDiagonalPaddedKeysMask if no_band else offset
        return padded.from_seqlens(q_seqlen=q_lens, kv_padding=k_len, kv_seqlen=k_lens)
    if not no_band and not only_causal:
        return None
    offset = classes.BlockDiagonalCausalWithOffsetGappyKeysMask
    gappy = classes.BlockDiagonalGappyKeysMask if no_band else offset
    return gappy.from_seqlens(q_seqlen=q_lens, kv_seqstarts=list(rows.q_bounds), kv_seqlen=k_lens)


def _far_enough(rows: Rows, q_len: int, k_len: int) -> tuple[int, int]:
    """Return how far a query sees to both sides, with numbers for a side without bound."""
    left = max(k_len - 1, 0) if rows.left == NO_BOUND else rows.left
    return left, max(q_len - 1, 0) if rows.right == NO_BOUND else rows.right


def _read_object(bias: Any, sizes: Sizes) -> Reading:
    """Read one of their objects: by its class, or from the tensor that it makes of itself."""
    name = type(bias).__name__
    if hasattr(bias, "block_tables"):
        raise SoftlookupError(
            f"{NAME}: {name} says where keys lie in pages.",
            expected="an object about keys in their order",
            got=name,
            hint="the class of the same name without Paged",
        )
    match name:
        case "LowerTriangularMask":
            return Reading(causal())
        case "LowerTriangularFromBottomRightMask":
            return Reading(causal("bottom-right"))
        case "LowerTriangularFromBottomRightLocalAttentionMask":
            return Reading(sliding_window(bias._window_size, "keys", "bottom-right"))
    blocks = hasattr(bias, "q_seqinfo")
    if blocks:
        q_len, k_len = bias.q_seqinfo.seqstart_py[-1], bias.k_seqinfo.seqstart_py[-1]
    else:
        q_len, k_len = sizes.of("q_len", name), sizes.of("k_len", name)
    shape = bias._bias.shape if hasattr(bias, "_bias") else (1, 1, q_len, k_len)
    allowed, lost = from_additive(bias.materialize(shape), NAME)
    return Reading(given(_by_sample(allowed[0, 0], sizes) if blocks else allowed), lost)


def _by_sample(allowed: Tensor, sizes: Sizes) -> Tensor:
    """Return the mask of one row, bool [queries, keys], as [B, 1, T_q, T_k] for the samples that lie in it.

    Raises: SoftlookupError when so many samples do not fill the row, or see each other.
    """
    B = sizes.batch_size or 1
    q_len, k_len = sizes.q_len or allowed.shape[0] // B, sizes.k_len or allowed.shape[1] // B
    by_sample = [allowed[b * q_len : (b + 1) * q_len, b * k_len : (b + 1) * k_len] for b in range(B)]
    if allowed.shape != (B * q_len, B * k_len) or int(allowed.sum()) != sum(
        int(it.sum()) for it in by_sample
    ):
        raise SoftlookupError(
            f"{NAME}: these blocks do not fit the batch.",
            expected=f"{B} samples of {q_len} queries and {k_len} keys in a row, that do not see each other",
            got=f"a row of {allowed.shape[0]} queries and {allowed.shape[1]} keys",
            hint="batch_size=, q_len= and k_len= of the padded batch; without batch_size it is one row",
        )
    return torch.stack(by_sample)[:, None]
