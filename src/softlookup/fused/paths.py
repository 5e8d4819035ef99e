"""Which structure of a mask goes which way: the one table, and the ways themselves.

``PATHS`` is asked from top to bottom; the first entry that gives a reason is taken. A new path is one entry
here and one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from softlookup.attention_inputs import require_a_key_in_every_row
from softlookup.fused.compiled import look_up_numbered
from softlookup.fused.cuda import Found, attend_on_cuda
from softlookup.fused.differentiable import apply_plan
from softlookup.fused.folding import check_batch_and_heads
from softlookup.fused.fused_kernel import Call, look_up
from softlookup.fused.glance import is_mapped
from softlookup.fused.pieces import Piece, Plan
from softlookup.fused.planning import plan_of_mask, plan_of_tensor, refuse_empty_rows
from softlookup.fused.running import lse_dtype
from softlookup.masks import Bias, Mask, Rule
from softlookup.terms import Case

_MOSTLY_VISIBLE = 0.85  # a dense mask that shows so much of its blocks gains nothing from leaving blocks out


class Problem(NamedTuple):
    """One call of attend, after its inputs were checked: four axes, one dtype, d_v == d_head on a CPU.

    q: [B, H, T_q, d]   k, v: [B, H_kv, T_k, d]
    mask: None, a mask or bias of ``softlookup.masks``, or a tensor with four axes
    """

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | Bias | Tensor | None
    scale: float
    dropout_p: float = 0.0
    empty_rows_allowed: bool = False
    with_lse: bool = False

    @property
    def lengths(self) -> tuple[int, int]:
        """T_q and T_k."""
        return self.q.shape[-2], self.k.shape[-2]

    @property
    def grouped(self) -> bool:
        """True when query heads share key/value heads."""
        return self.q.shape[1] != self.k.shape[1]


def _nothing_asked(problem: Problem) -> str | None:
    return "there are no queries" if 0 in problem.q.shape[:-1] else None


def _unmasked(problem: Problem) -> str | None:
    return "no mask" if problem.mask is None and problem.lengths[1] > 0 else None


def _causal(problem: Problem) -> str | None:
    match problem.mask:
        case Rule(name="causal_top_left") if problem.lengths[1] > 0:
            return "causal, counted from the first key: what is_causal does"
        case Rule(name="causal_bottom_right") if problem.lengths[0] == problem.lengths[1] > 0:
            return "causal, and as many queries as keys: both corners are one"
    return None


def _learned_bias(problem: Problem) -> str | None:
    mask = problem.mask
    return "the bias needs a gradient" if isinstance(mask, Tensor) and mask.requires_grad else None


def _dropout(problem: Problem) -> str | None:
    if not problem.dropout_p:
        return None
    return "dropout acts on the weights one by one: PyTorch's own choice, with the whole mask"


def _mapped_tensor(problem: Problem) -> str | None:
    mask = problem.mask
    if not isinstance(mask, Tensor):
        return None
    if torch.compiler.is_compiling():
        return "the values of a mask tensor are not known when a function is compiled"
    if is_mapped(mask):
        return "the mask differs along an axis of vmap"
    return None


def _on_cuda(problem: Problem) -> str | None:
    if problem.q.device.type != "cuda" or not isinstance(problem.mask, (Mask, Bias)):
        return None
    return None if torch.compiler.is_compiling() else "the mask keeps its structure, on CUDA"


def _other_device(problem: Problem) -> str | None:
    device = problem.q.device.type
    return None if device == "cpu" else f"no path of our own on {device}: PyTorch's, with the whole mask"


def _structured(problem: Problem) -> str | None:
    return "the mask keeps its structure" if isinstance(problem.mask, (Mask, Bias)) else None


def _tensor(problem: Problem) -> str | None:
    return "a mask tensor" if isinstance(problem.mask, Tensor) else None


def _otherwise(problem: Problem) -> str | None:
    return "there are no keys"


def _by_flag(problem: Problem) -> Found:
    """One call of the fused kernel, with or without the causal flag."""
    causal = problem.mask is not None
    q, k, v = problem.q, problem.k, problem.v
    if q.device.type == "cpu" and any(map(is_mapped, (q, k, v))):  # the kernel alone has no rule for vmap
        return apply_plan(q, k, v, _flag_plan(problem), problem.scale)
    if q.device.type == "cpu" and problem.with_lse:
        return look_up(q, k, v, Call(problem.scale, causal=causal))
    if q.device.type == "cuda" and problem.with_lse:
        return attend_on_cuda(q, k, v, problem.mask, problem.scale, with_lse=True)
    output = torch_attention(
        q,
        k,
        v,
        dropout_p=problem.dropout_p,
        is_causal=causal,
        scale=problem.scale,
        enable_gqa=problem.grouped,
    )
    return output, None


def _by_nothing(problem: Problem) -> Found:
    """No row of output, for which the CPU kernel would divide by zero."""
    q, v = problem.q, problem.v
    output = (q.sum() + problem.k.sum() + v.sum()) * q.new_zeros(*q.shape[:-1], v.shape[-1])
    return output, q.new_zeros(q.shape[:-1], dtype=lse_dtype(q))


def _flag_plan(problem: Problem) -> Plan:
    q_len, k_len = problem.lengths
    piece = Piece(0, q_len, ((0, k_len),), "full" if problem.mask is None else "triangle")
    return Plan((piece,), None, q_len, k_len, "")


def _by_whole_mask(problem: Problem) -> Found:
    """PyTorch's own choice of a kernel, given the whole mask."""
    mask, (q_len, k_len) = problem.mask, problem.lengths
    if isinstance(mask, (Mask, Bias)):
        mask = mask.dense(q_len, k_len, device=problem.q.device)
    if mask is not None and mask.is_floating_point():
        mask = mask.to(problem.q.dtype)
    _refuse_empty_rows(problem, mask)
    output = torch_attention(
        problem.q,
        problem.k,
        problem.v,
        attn_mask=mask,
        dropout_p=problem.dropout_p,
        scale=problem.scale,
        enable_gqa=problem.grouped,
    )
    return output, None


def _by_plan(problem: Problem) -> Found:
    """Pieces of the score matrix, each by one fused call."""
    q, k, v, mask = problem.q, problem.k, problem.v, problem.mask
    assert isinstance(mask, (Mask, Bias))
    if torch.compiler.is_compiling():
        compiled: Found = look_up_numbered(q, k, v, mask.number, problem.scale, problem.empty_rows_allowed)
        return compiled
    plan = plan_of_mask(mask, q, k, empty_rows_allowed=problem.empty_rows_allowed)
    return apply_plan(q, k, v, plan, problem.scale)


def _by_cuda(problem: Problem) -> Found:
    """varlen_attn or FlexAttention: see ``cuda``."""
    mask = problem.mask
    assert isinstance(mask, (Mask, Bias))
    if not problem.empty_rows_allowed and mask.empty_rows(*problem.lengths):
        refuse_empty_rows(mask, problem.q, problem.k)
    return attend_on_cuda(problem.q, problem.k, problem.v, mask, problem.scale, with_lse=problem.with_lse)


def _by_tensor(problem: Problem) -> Found:
    """A mask tensor, read: intervals or blocks where that pays, else as it is."""
    mask = problem.mask
    assert isinstance(mask, Tensor)
    plan = _tensor_plan(problem)
    if plan is None:
        return _by_whole_mask(problem)
    _refuse_empty_rows(problem, mask)
    return apply_plan(problem.q, problem.k, problem.v, plan, problem.scale)


def _tensor_plan(problem: Problem) -> Plan | None:
    """Return the plan for a mask tensor; None where it would compute nearly everything anyway."""
    assert isinstance(problem.mask, Tensor)
    plan = plan_of_tensor(problem.mask, problem.q, problem.k)
    batch, (q_len, k_len) = problem.q.shape[0], problem.lengths
    dense = plan.logits(batch) > _MOSTLY_VISIBLE * batch * q_len * k_len
    return None if dense and not problem.with_lse else plan


def _refuse_empty_rows(problem: Problem, mask: Tensor | None) -> None:
    """Look for queries without keys; a compiler cannot, there they return zeros."""
    unknown = torch.compiler.is_compiling() or (mask is not None and is_mapped(mask))
    if problem.empty_rows_allowed or unknown:
        return
    seen = None if mask is None else _sees_something(mask)
    require_a_key_in_every_row(seen, Case(problem.q, problem.k, problem.v))


def _sees_something(mask: Tensor) -> Tensor:
    """[..., T_q, T_k] -> bool [..., T_q, 1]; the largest entry is found 15 times as fast as any()."""
    if mask.shape[-1] == 0:
        return mask.new_zeros(*mask.shape[:-1], 1, dtype=torch.bool)
    if mask.dtype == torch.bool:
        return mask.view(torch.uint8).amax(dim=-1, keepdim=True) > 0
    return mask.amax(dim=-1, keepdim=True) != -math.inf


class Way(NamedTuple):
    """One entry: a name, when it is taken (a reason, or None), how it computes, and by which plan."""

    name: str
    reason: Callable[[Problem], str | None]
    compute: Callable[[Problem], Found]
    plan: Callable[[Problem], Plan | None]


def _no_plan(problem: Problem) -> None:
    return None


def _structured_plan(problem: Problem) -> Plan:
    assert isinstance(problem.mask, (Mask, Bias))
    return plan_of_mask(problem.mask, problem.q, problem.k, empty_rows_allowed=True)


PATHS = (
    Way("whole mask", _nothing_asked, _by_nothing, _no_plan),
    Way("whole mask", _dropout, _by_whole_mask, _no_plan),
    Way("one call", _unmasked, _by_flag, _flag_plan),
    Way("causal flag", _causal, _by_flag, _flag_plan),
    Way("whole mask", _learned_bias, _by_whole_mask, _no_plan),
    Way("whole mask", _mapped_tensor, _by_whole_mask, _no_plan),
    Way("CUDA", _on_cuda, _by_cuda, _no_plan),
    Way("whole mask", _other_device, _by_whole_mask, _no_plan),
    Way("pieces", _structured, _by_plan, _structured_plan),
    Way("read tensor", _tensor, _by_tensor, _tensor_plan),
    Way("whole mask", _otherwise, _by_whole_mask, _no_plan),
)


def choose(problem: Problem) -> tuple[Way, str]:
    """Return the first way of the table that is for this problem, and its reason.

    Raises: SoftlookupError when the mask is for another number of samples or heads.
    """
    for way in PATHS:
        reason = way.reason(problem)
        if reason is not None:
            if way.compute is not _by_flag and not torch.compiler.is_compiling():  # there the operator looks
                check_batch_and_heads(problem.mask, problem.q.shape)
            return way, reason
    raise AssertionError("the last way takes every problem")
