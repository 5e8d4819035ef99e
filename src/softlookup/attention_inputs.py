"""What ``scaled_dot_product_attention`` may be given, and the words in which anything else is refused."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from softlookup.terms import Case, MaskLike, SoftlookupError

_DOING = "scaled_dot_product_attention:"
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def sizes_of(q: Tensor, k: Tensor) -> dict[str, int]:
    """Return the sizes bound by q [..., T_q, d_head] and k [..., T_k, d_head], in the order of the axes."""
    names = ["B", "H"][: q.dim() - 2] if q.dim() <= 4 else [f"axis {n}" for n in range(q.dim() - 2)]
    sizes = dict(zip(names, q.shape, strict=False))
    return {**sizes, "T_q": q.shape[-2], "T_k": k.shape[-2], "d_head": q.shape[-1]}


def check_tensors(q: Tensor, k: Tensor, v: Tensor, *, enable_gqa: bool) -> None:
    """Refuse q, k, v that are no attention problem.

    Raises: SoftlookupError when dtype, device, d_head, T_k or the leading axes do not fit together.
    """
    _check_kinds({"q": q, "k": k, "v": v})
    sizes = sizes_of(q, k)
    if q.shape[-1] != k.shape[-1] or q.shape[-1] == 0:
        raise SoftlookupError(
            f"{_DOING} a query and a key are compared by a dot product.",
            expected="q [..., T_q, d_head] and k [..., T_k, d_head] of one width d_head, at least 1",
            got=f"d_head {q.shape[-1]} in q and {k.shape[-1]} in k",
            sizes=sizes,
            hint="k.transpose(-2, -1): keys come untransposed, the transpose is done here"
            if k.shape[-2] == q.shape[-1]
            else "project both to the same d_head",
        )
    if k.shape[-2] != v.shape[-2]:
        raise SoftlookupError(
            f"{_DOING} every key carries one value.",
            expected="k [..., T_k, d_head] and v [..., T_k, d_v] of one length T_k",
            got=f"{k.shape[-2]} keys and {v.shape[-2]} values",
            sizes=sizes,
        )
    if k.shape[:-2] != v.shape[:-2]:
        raise SoftlookupError(
            f"{_DOING} keys and values come in pairs.",
            expected="the same leading axes in k and v",
            got=f"{tuple(k.shape[:-2])} in k and {tuple(v.shape[:-2])} in v",
            sizes=sizes,
        )
    _check_leading(q, k, enable_gqa=enable_gqa, sizes=sizes)


def _check_kinds(tensors: dict[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise SoftlookupError(
                f"{_DOING} {name} is not a tensor.",
                expected="a torch.Tensor",
                got=type(tensor).__name__,
                hint=f"torch.as_tensor({name})",
            )
        if tensor.dim() < 2:
            raise SoftlookupError(
                f"{_DOING} {name} has no axis for positions.",
                expected=f"{name} [..., T, d], two axes at least",
                got=f"shape {tuple(tensor.shape)}",
                hint=f"{name}[None, :] for a single position",
            )
        if tensor.dtype not in _FLOATS:
            raise SoftlookupError(
                f"{_DOING} {name} has dtype {tensor.dtype}.",
                expected="float16, bfloat16, float32 or float64",
                got=str(tensor.dtype),
                hint=f"{name}.float()",
            )
    for what in ("dtype", "device"):
        found = {name: getattr(tensor, what) for name, tensor in tensors.items()}
        if not found["q"] == found["k"] == found["v"]:
            raise SoftlookupError(
                f"{_DOING} q, k and v differ in {what}.",
                expected=f"one {what} for all three",
                got=", ".join(f"{name}: {value}" for name, value in found.items()),
                hint=f"k.to(q.{what}), v.to(q.{what})",
            )


def _check_leading(q: Tensor, k: Tensor, *, enable_gqa: bool, sizes: dict[str, int]) -> None:
    """Refuse leading axes that differ: what broadcasts silently is more often a swapped axis than a wish."""
    theirs, ours = tuple(k.shape[:-2]), tuple(q.shape[:-2])
    if theirs == ours:
        return
    grouped = len(ours) == len(theirs) >= 1 and ours[:-1] == theirs[:-1] and 0 < theirs[-1] < ours[-1]
    grouped = grouped and ours[-1] % theirs[-1] == 0
    if enable_gqa and grouped:
        return
    if enable_gqa:
        raise SoftlookupError(
            f"{_DOING} query heads do not divide among the key/value heads.",
            expected="q [..., H, T_q, d_head] and k [..., H_kv, T_k, d_head] with H a multiple of H_kv",
            got=f"leading axes {ours} in q and {theirs} in k",
            sizes=sizes,
        )
    raise SoftlookupError(
        f"{_DOING} q and k have different leading axes.",
        expected="the same axes before [T, d] in q, k and v",
        got=f"{ours} in q and {theirs} in k",
        sizes=sizes,
        hint="enable_gqa=True, if query heads share key/value heads"
        if grouped
        else "k.expand(...), if sharing is meant",
    )


def check_options(*, dropout_p: float, empty_rows: str = "raise") -> None:
    """Refuse a dropout that is no probability and an unknown rule for empty rows.

    Raises: SoftlookupError for either.
    """
    if not 0 <= dropout_p <= 1:
        raise SoftlookupError("Attention: dropout is a probability.", expected="0 to 1", got=str(dropout_p))
    if empty_rows not in ("raise", "zero"):
        raise SoftlookupError(
            f"{_DOING} empty_rows says what a query without any key returns.",
            expected="'raise' or 'zero'",
            got=repr(empty_rows),
        )


def read_mask(
    attention_mask: Tensor | MaskLike | None, q: Tensor, k: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return (allowed_mask, additive_bias), on q's device and broadcastable to [..., T_q, T_k]; one is None.

    Raises: SoftlookupError for an integer mask, anything that is no mask, and sizes that do not broadcast.
    """
    if attention_mask is None:
        return None, None
    mask: Any = attention_mask
    if not isinstance(mask, Tensor) and callable(getattr(mask, "dense", None)):
        mask = mask.dense(q.shape[-2], k.shape[-2], device=q.device)
    if not isinstance(mask, Tensor):
        raise SoftlookupError(
            f"{_DOING} attention_mask is no mask.",
            expected="a bool tensor (True = allowed), a float tensor (added to the scores) or a Mask",
            got=type(mask).__name__,
            hint="torch.as_tensor(attention_mask)",
        )
    mask = _broadcastable(mask.to(q.device), q, k)
    if mask.dtype == torch.bool:
        return mask, None
    if mask.dtype.is_floating_point:
        # In q's dtype from here on: a fill of -3e38 is -inf in float16, and must be seen as hiding.
        return None, mask.to(q.dtype)
    raise SoftlookupError(
        f"{_DOING} an integer attention_mask does not say what its numbers mean.",
        expected="a bool tensor (True = allowed) or a float tensor (added to the scores)",
        got=str(mask.dtype),
        hint="attention_mask.bool() where 1 means may look, attention_mask == 0 where 1 means hidden",
    )


def _broadcastable(mask: Tensor, q: Tensor, k: Tensor) -> Tensor:
    wanted = (*q.shape[:-1], k.shape[-2])  # [..., T_q, T_k]
    while mask.dim() > len(wanted) and mask.shape[0] == 1:
        mask = mask[0]  # (1, 1, T, T) also serves q without a head axis
    fits = mask.dim() <= len(wanted) and all(
        theirs in (1, ours) for theirs, ours in zip(reversed(mask.shape), reversed(wanted), strict=False)
    )
    if fits:
        return mask
    per_key = mask.dim() == 2 and len(wanted) > 2 and tuple(mask.shape) == (wanted[0], wanted[-1])
    raise SoftlookupError(
        f"{_DOING} attention_mask does not broadcast to the scores.",
        expected=f"a shape that broadcasts to [..., T_q, T_k] = {wanted}",
        got=f"shape {tuple(mask.shape)}",
        sizes=sizes_of(q, k),
        hint=f"a mask of keys (B, T_k) needs an axis for {'heads and ' if len(wanted) == 4 else ''}queries: "
        f"attention_mask[:, {'None, ' * (len(wanted) - 2)}:]"
        if per_key
        else "the last axis of a mask counts keys, the one before it queries",
    )


def require_a_key_in_every_row(allowed: Tensor | None, case: Case) -> None:
    """Refuse a problem in which some query may look at no key: its softmax would be 0 / 0.

    allowed: bool, broadcastable to [..., T_q, T_k], or None when nothing is hidden

    Raises: SoftlookupError that names the first such row, and says when a whole sample is empty.
    """
    rows = case.q.shape[:-1]  # [..., T_q]
    if allowed is None:
        if case.k.shape[-2] > 0 or math.prod(rows) == 0:
            return
        allowed = torch.zeros(1, 1, dtype=torch.bool, device=case.q.device)
    empty = ~allowed.any(dim=-1)  # broadcastable to [..., T_q]
    if not empty.any() or math.prod(rows) == 0:
        return
    empty = empty.expand(rows)
    first: list[int] = empty.nonzero()[0].tolist()
    leading = (
        ["batch", "head"] if len(rows) <= 3 else [*(f"axis {n} at" for n in range(len(rows) - 2)), "head"]
    )
    names = [*leading[: len(rows) - 1], "query"]
    where = ", ".join(f"{name} {index}" for name, index in zip(names, first, strict=True))
    whole = len(rows) > 1 and bool(empty[first[0]].all())
    raise SoftlookupError(
        f"{_DOING} a query may look at no key.",
        expected="at least one allowed key in every row of the mask",
        got=f"{int(empty.sum())} of {empty.numel()} rows are empty, the first is {where}"
        + (f"; every query of {names[0]} {first[0]} is empty: is it all padding?" if whole else ""),
        sizes=sizes_of(case.q, case.k),
        hint="empty_rows='zero' returns zeros for such rows; also look whether the mask means True = allowed",
    )
