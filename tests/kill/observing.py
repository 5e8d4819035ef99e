"""What one call of a file shows, and whether two files can be told apart by it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from driving import Style, cases
from torch import Tensor

from softlookup.terms import Case


def in_dtype(case: Case, dtype: torch.dtype) -> Case:
    bias = None if case.additive_bias is None else case.additive_bias.to(dtype)
    return case.but(q=case.q.to(dtype), k=case.k.to(dtype), v=case.v.to(dtype), additive_bias=bias)


@dataclass(frozen=True)
class Seen:
    """Everything one call shows: outputs and weights, gradients, changed inputs, or how it failed."""

    tensors: tuple[Tensor, ...] = ()
    gradients: tuple[Tensor, ...] = ()
    changed: bool = False
    failure: str = ""


def observe(module: object, style: Style, case: Case, *, strided: bool = False) -> Seen:
    case = copied(case, style, strided)
    before = copied(case, style, False)
    torch.manual_seed(1)
    try:
        outputs, weights = style.call(module, case)  # type: ignore[arg-type]
        run = gradients(lambda c, s: sum(style.call(module, c)[0]), copied(before, style, strided), style)  # type: ignore
    except (RuntimeError, IndexError, ValueError) as error:
        return Seen(failure=type(error).__name__)
    fields = ("q", "k", "v", "allowed_mask", "additive_bias")
    pairs = [
        (getattr(case, name), getattr(before, name)) for name in fields if getattr(before, name) is not None
    ]
    changed = not all(torch.equal(now.nan_to_num(), then.nan_to_num()) for now, then in pairs)
    scale = 1 / len(outputs)
    return Seen((*outputs, *([] if weights is None else [weights])), tuple(g * scale for g in run), changed)


def copied(case: Case, style: Style, strided: bool) -> Case:
    """Return the case with tensors of its own: contiguous as the style takes them, or transposed."""

    def copy(x: Tensor | None, tokens_first: bool) -> Tensor | None:
        if x is None:
            return None
        if strided and x.dim() > 2:
            return x.mT.contiguous().mT
        return (
            x.transpose(1, 2).clone(memory_format=torch.contiguous_format).transpose(1, 2)
            if tokens_first
            else x.clone()
        )

    looked_up = {name: copy(getattr(case, name), style.tokens_first) for name in ("q", "k", "v")}
    masks = {name: copy(getattr(case, name), False) for name in ("allowed_mask", "additive_bias")}
    return case.but(**looked_up, **masks)


def gradients(run: object, case: Case, style: Style) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_() for x in (case.q, case.k, case.v)]
    q, k, v = (x * 1 for x in leaves)  # not leaves: an in-place change is seen, not refused
    output = run(case.but(q=q, k=k, v=v), style)  # type: ignore[operator]
    torch.manual_seed(2)
    if not output.requires_grad:
        return tuple(torch.zeros_like(x) for x in leaves)
    grads = torch.autograd.grad((output * torch.randn(output.shape)).sum(), leaves, allow_unused=True)
    return tuple(torch.zeros_like(x) if g is None else g for x, g in zip(leaves, grads, strict=True))


def with_hidden_nan(case: Case) -> Case | None:
    """Return the case with NaN in keys that nobody may see, or None when every key has a viewer.

    Of packed documents the last key is taken: nobody outside its document may see it.
    """
    if case.document_ids is not None:
        last = torch.arange(case.k.shape[2])[:, None] == case.k.shape[2] - 1
        return case.but(k=case.k.masked_fill(last, torch.nan), v=case.v.masked_fill(last, torch.nan))
    if case.allowed_mask is None or case.allowed_mask.shape[2] != 1:
        return None
    hidden = ~case.allowed_mask[:, :, 0, :, None].bool()
    return case.but(k=case.k.masked_fill(hidden, torch.nan), v=case.v.masked_fill(hidden, torch.nan))


def loudness(case: Case) -> float:
    return float(
        (case.q.double() @ case.k.double().repeat_interleave(case.q.shape[1] // case.k.shape[1], 1).mT)
        .abs()
        .max()
    )


def differ(right: object, wrong: object, style: Style, dtype: str = "float32") -> bool:
    """Say whether any case tells the two files apart: as it is, strided, loud, or with NaN in hidden keys."""
    for case in cases(style):
        case = in_dtype(case, getattr(torch, dtype))
        views = [(case, False), (case, True), (case.but(q=case.q * 1000), False)]
        if (poisoned := with_hidden_nan(case)) is not None:
            views.append((poisoned, False))
        for asked, strided in views:
            if not same(
                observe(right, style, asked, strided=strided), observe(wrong, style, asked, strided=strided)
            ):
                return True
    return False


def same(one: Seen, other: Seen) -> bool:
    if (one.failure, one.changed) != (other.failure, other.changed):
        return False
    pairs = [(one.tensors, other.tensors), (one.gradients, other.gradients)]
    return all(
        len(a) == len(b) and all(x.shape == y.shape and close(x, y) for x, y in zip(a, b, strict=True))
        for a, b in pairs
    )


def close(x: Tensor, y: Tensor) -> bool:
    return torch.allclose(x.double(), y.double(), rtol=1e-4, atol=1e-5, equal_nan=True)
