"""The masks of four axes that transformers' attention layers take, whatever the implementation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from softlookup.conventions.spelling import Sizes, refuse_shape
from softlookup.conventions.tensors import as_tensor, full_of
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

#: No axis may be missing: a mask of two axes is taken for padding.
SHAPES = ("1 1 T_q T_k", "B 1 1 T_k", "B 1 T_q T_k", "B H T_q T_k")


def four_axes_of(attention_mask: Any, whose: str) -> Tensor:
    """Return a mask of four axes as a tensor.

    Raises: SoftlookupError when there is none, and for another number of axes.
    """
    if attention_mask is None:
        raise SoftlookupError(
            f"{whose}: without attention_mask it is the model that says who sees whom.",
            expected="a mask of four axes",
            got="None",
            hint="source='transformers decoder' or 'transformers'",
        )
    tensor = as_tensor(attention_mask, whose)
    if tensor.dim() == 2:
        raise SoftlookupError(
            f"{whose}: a mask of two axes is not for the layers: the model takes it for padding.",
            expected="[B, 1, T_q, T_k], [B, H, T_q, T_k], or 1 for an axis",
            got=f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}",
            hint="[B, T_k]: source='transformers' or 'transformers decoder'; [T_q, T_k]: tensor[None, None]",
        )
    if tensor.dim() != 4:
        expected = "[B, 1, T_q, T_k], [B, H, T_q, T_k], or 1 for an axis"
        raise refuse_shape(tensor, whose, "attention_mask", expected)
    return tensor


def for_each_sample(mask: Mask, sizes: Sizes) -> Tensor:
    """Return bool [B, 1 or H, T_q, T_k], as views where it repeats; [1, ...] where nobody said B."""
    return full_of(mask, sizes).expand(mask.sizes["B"] or sizes.batch_size or -1, -1, -1, -1)


def refuse_added(tensor: Tensor, whose: str) -> SoftlookupError:
    """Return the refusal of bools and integers where every number is added to the scores."""
    return SoftlookupError(
        f"{whose}: it is added to the scores, and 0 and 1 hide nothing there.",
        expected="float: 0 to see, the smallest number of its dtype to hide",
        got=f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}",
        hint="source='transformers sdpa' for a bool mask under attn_implementation='sdpa'",
    )
