"""The same for torch.compile: an operator that a compiler does not look into.

It is given the number of the mask, and the plan is found when it runs: lengths may stay symbolic, and a mask
that is new to a compiled function compiles it anew, because its number is another.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softlookup.fused.folding import check_batch_and_heads
from softlookup.fused.pieces import Plan
from softlookup.fused.planning import plan_of_mask
from softlookup.fused.running import lse_dtype, run, run_backward
from softlookup.masks.numbered import with_number


def _plan(number: int, q: Tensor, k: Tensor, empty_rows_allowed: bool) -> Plan:
    mask = with_number(number)
    check_batch_and_heads(mask, q.shape)
    return plan_of_mask(mask, q, k, empty_rows_allowed=empty_rows_allowed)


@torch.library.custom_op("softlookup::look_up", mutates_args=())
def look_up_numbered(
    q: Tensor, k: Tensor, v: Tensor, number: int, scale: float, empty_rows_allowed: bool
) -> tuple[Tensor, Tensor]:
    """Return output and log-sum-exp under the mask with this number: ``apply_plan`` for a compiler."""
    output, lse = run(q, k, v, _plan(number, q, k, empty_rows_allowed), scale)
    return output.contiguous(), lse.contiguous()  # the compiler is told one layout for all plans


@look_up_numbered.register_fake
def _(
    q: Tensor, k: Tensor, v: Tensor, number: int, scale: float, empty_rows_allowed: bool
) -> tuple[Tensor, Tensor]:
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(
        q.shape[:-1], dtype=lse_dtype(q)
    )


@torch.library.custom_op("softlookup::look_up_backward", mutates_args=())
def look_up_numbered_backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor, number: int, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v."""
    dq, dk, dv = run_backward(grad, (q, k, v), output, lse, _plan(number, q, k, True), scale)
    return dq.contiguous(), dk.contiguous(), dv.contiguous()


@look_up_numbered_backward.register_fake
def _(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, output: Tensor, lse: Tensor, number: int, scale: float
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))
    return q, k, v


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, ctx.number, ctx.scale, _ = inputs
    ctx.save_for_backward(q, k, v, *output)
    ctx.mark_non_differentiable(output[1])


def _differentiate(ctx: Any, grad: Tensor, _: Tensor | None) -> tuple[Any, ...]:
    return *look_up_numbered_backward(grad, *ctx.saved_tensors, ctx.number, ctx.scale), None, None, None


look_up_numbered.register_autograd(_differentiate, setup_context=_save)
