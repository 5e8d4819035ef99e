"""The ``attention_mask`` of two axes, [B, T_k], and which masks are nothing but that, or that under causal.

Models of transformers take no dense mask here, so a tensor is held against what the two axes can say.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.parts import parts_of
from softlookup.conventions.spelling import Sizes, refuse_shape
from softlookup.conventions.tensors import as_tensor, dense_of, everything, given
from softlookup.masks import Mask
from softlookup.terms import SoftlookupError

#: What is lost in two axes, and which conventions say it.
IN_FOUR_AXES = "'transformers sdpa' and 'transformers eager' say it in four axes"


def read_keys(attention_mask: Any, sizes: Sizes, whose: str) -> Mask:
    """Return numbers or bools [B, T_k] as a mask: every number but 0 shows its key. None shows all.

    Raises: SoftlookupError for another shape than [B, T_k].
    """
    if attention_mask is None:
        return everything()
    tensor = as_tensor(attention_mask, whose)
    if tensor.dim() == 4:
        raise SoftlookupError(
            f"{whose}: a mask of four axes goes to the layers as it is, and what they make of it differs.",
            expected="[B, T_k], 1 = keep",
            got=f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}",
            hint="source='transformers sdpa', 'transformers eager' or 'transformers flex', "
            "as attn_implementation says",
        )
    B, T_k = sizes.batch_size, sizes.k_len
    if tensor.dim() != 2 or not (B in (None, tensor.shape[0]) and T_k in (None, tensor.shape[1])):
        axes = f"[{'B' if B is None else B}, {'T_k' if T_k is None else T_k}]"
        raise refuse_shape(tensor, whose, "attention_mask", axes + ", past and new tokens together")
    return given(tensor.bool()[:, None, None])  # [B, 1, 1, T_k]


def written_keys(keys: Tensor, sizes: Sizes) -> dict[str, Any]:
    """Return bool [B or 1, T_k] as a tokenizer makes it, int64 [B, T_k]; nothing where nothing is hidden.

    Raises: SoftlookupError when samples are alike and nobody said how many there are.
    """
    if bool(keys.all()):
        return {}
    B = keys.shape[0] if keys.shape[0] > 1 else sizes.of("batch_size", "attention_mask [B, T_k]")
    return {"attention_mask": keys.expand(B, -1).long()}


def keys_alone(mask: Mask, sizes: Sizes, *, causal: bool) -> Tensor | None:
    """Return bool [B or 1, T_k]: the keys that are not hidden from all, where nothing else is said; or None.

    causal: queries, of which the last sees the last key, see no later keys either

    >>> from softlookup.masks import causal, padding
    >>> keys_alone(causal() & padding([2, 3]), Sizes(3, 3), causal=True)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    >>> keys_alone(causal() & padding([2, 3]), Sizes(3, 3), causal=False)
    """
    if not causal and mask.axes <= {"B", "T_k"}:
        return dense_of(mask, sizes)[:, 0, 0]
    q_len, k_len = sizes.of("q_len", "this mask"), sizes.of("k_len", "this mask")
    parts = parts_of(mask, sizes)
    if causal and parts.hides <= {"high", "keys"} and parts.high == (k_len - q_len if q_len > 1 else None):
        return torch.ones(1, k_len, dtype=torch.bool) if parts.keys is None else parts.keys
    seen = dense_of(mask, sizes)
    keys = seen[:, 0, -1].expand(-1, k_len)  # the last query sees every key that is not hidden from all
    for sample, own in zip(seen, keys, strict=True):
        wanted = own & _up_to_own(q_len, k_len, seen) if causal else own
        if not torch.equal(sample.expand(-1, q_len, k_len), wanted.expand(sample.shape[0], q_len, k_len)):
            return None
    return keys


def keys_seen(mask: Mask, sizes: Sizes) -> Tensor:
    """Return bool [B or 1, T_k]: the keys that some query sees in some head."""
    return dense_of(mask, sizes).any(dim=(1, 2)).expand(-1, sizes.of("k_len", "attention_mask [B, T_k]"))


def hides_what_is_later(mask: Mask, sizes: Sizes) -> bool:
    """Say whether no query sees a later key than its own, where the last one's own is the last key."""
    q_len, k_len = sizes.of("q_len", "this mask"), sizes.of("k_len", "this mask")
    seen = dense_of(mask, sizes)
    later = ~_up_to_own(q_len, k_len, seen)
    return not any(bool((sample & later).any()) for sample in seen)


def _up_to_own(q_len: int, k_len: int, like: Tensor) -> Tensor:
    return torch.ones(q_len, k_len, dtype=torch.bool, device=like.device).tril(k_len - q_len)
