"""One call of PyTorch's fused CPU kernel and of its backward pass, with the log-sum-exp.

The operator is the one behind F.scaled_dot_product_attention on a CPU, so the output has the same bits. It
wants four axes and d_v == d_head, shares key/value heads by itself, and answers a row whose keys are all
hidden with 0 and a log-sum-exp of 0, which is -inf here: such a row adds nothing to what others found.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_FORWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_BACKWARD = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class Call(NamedTuple):
    """What one call is given beside its tensors."""

    scale: float
    causal: bool = False
    mirrored: bool = False  # causal from the other end: query r sees keys r to the last
    tile: Tensor | None = None  # floats [N or 1, H or 1, q, k] that are added; -inf hides


def look_up(q: Tensor, k: Tensor, v: Tensor, call: Call) -> tuple[Tensor, Tensor]:
    """Return output [N, H, q, d] and the log-sum-exp of the scaled scores [N, H, q].

    q: [N, H, q, d]   k, v: [N, H_kv, k, d]
    """
    if call.mirrored:
        turned = look_up(q.flip(-2), k.flip(-2), v.flip(-2), Call(call.scale, causal=True))
        return turned[0].flip(-2), turned[1].flip(-1)
    q, k, v = (_with_neighbouring_features(x) for x in (q, k, v))
    output, lse = _FORWARD(q, k, v, 0.0, call.causal, attn_mask=call.tile, scale=call.scale)
    if call.tile is not None:
        empty = call.tile.amax(dim=-1) == -math.inf  # [N or 1, H or 1, q]
        lse = lse.masked_fill(empty, -math.inf)
    return output, lse


def look_up_backward(
    grad: Tensor, tensors: tuple[Tensor, Tensor, Tensor], output: Tensor, lse: Tensor, call: Call
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v.

    output, lse: of all keys that the queries see, also those of other calls: the weights are exp(scores -
        lse), and each call then adds its share of the gradients (as ring attention does)
    """
    if call.mirrored:
        q, k, v = (x.flip(-2) for x in tensors)
        straight = Call(call.scale, causal=True)
        turned = look_up_backward(grad.flip(-2), (q, k, v), output.flip(-2), lse.flip(-1), straight)
        return turned[0].flip(-2), turned[1].flip(-2), turned[2].flip(-2)
    q, k, v, grad, output = (_with_neighbouring_features(x) for x in (*tensors, grad, output))
    grads: tuple[Tensor, Tensor, Tensor] = _BACKWARD(
        grad,
        q,
        k,
        v,
        output,
        # exp(score - inf) is 0: a query without keys moves nothing.
        lse.masked_fill(lse == -math.inf, math.inf),
        0.0,
        call.causal,
        attn_mask=call.tile,
        scale=call.scale,
    )
    return grads


def _with_neighbouring_features(x: Tensor) -> Tensor:
    """Return x as the operator needs it, which does not look; F.scaled_dot_product_attention does."""
    return x if x.stride(-1) == 1 else x.contiguous()
