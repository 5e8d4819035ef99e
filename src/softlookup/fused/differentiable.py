"""A plan as one differentiable operation, also under vmap. As with PyTorch, its gradient has no gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from softlookup.fused.pieces import Piece, Plan, Tiles
from softlookup.fused.running import run, run_backward


def apply_plan(q: Tensor, k: Tensor, v: Tensor, plan: Plan, scale: float) -> tuple[Tensor, Tensor]:
    """Return output [B, H, T_q, d] and log-sum-exp [B, H, T_q]; gradients flow through the output.

    q: [B, H, T_q, d]   k, v: [B, H_kv, T_k, d]
    """
    output, lse = _LookUp.apply(plan, scale, q, k, v)  # type: ignore[no-untyped-call]
    return output, lse


class _Planned(torch.autograd.Function):
    """A function of plan, scale and tensors; vmap puts its axis beside the heads, the second axis of all."""

    @classmethod
    def vmap(cls, info: Any, in_dims: tuple[Any, ...], plan: Plan, scale: float, *tensors: Tensor) -> Any:
        """[V, B, H, ...] -> [B, V * H, ...] and back."""
        size = info.batch_size
        folded = [
            (x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)).transpose(0, 1).flatten(1, 2)
            for x, dim in zip(tensors, in_dims[2:], strict=True)
        ]
        if plan.tiles is not None:
            plan = replace(plan, tiles=_ForMoreHeads(plan.tiles, size))
        found = cls.apply(plan, scale, *folded)  # type: ignore[no-untyped-call]
        return tuple(x.unflatten(1, (size, -1)) for x in found), (1,) * len(found)


class _LookUp(_Planned):
    """``run``, with ``run_backward`` as its gradient."""

    @staticmethod
    def forward(plan: Plan, scale: float, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        return run(q, k, v, plan, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.plan, ctx.scale = inputs[:2]
        ctx.save_for_backward(*inputs[2:], *output)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Any, ...]:
        parts = _Gradient.apply(ctx.plan, ctx.scale, grad, *ctx.saved_tensors)  # type: ignore[no-untyped-call]
        return None, None, *parts


class _Gradient(_Planned):
    """``run_backward``."""

    @staticmethod
    def forward(plan: Plan, scale: float, *tensors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        grad, q, k, v, output, lse = tensors
        return run_backward(grad, (q, k, v), output, lse, plan, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        """Nothing is kept: a second derivative is refused."""

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        raise NotImplementedError("attend: the fused kernels have no second derivative")


@dataclass(frozen=True)
class _ForMoreHeads:
    """The masks of a plan for heads that stand there several times."""

    tiles: Tiles
    times: int

    def tile(self, piece: Piece, like: Tensor) -> Tensor:
        tile = self.tiles.tile(piece, like)
        return tile if tile.shape[1] == 1 else tile.repeat(1, self.times, 1, 1)
