"""`~` negates the bits of an integer mask: 1 becomes -2 and 0 becomes -1, and both count as true.

Missed because: the same line is right for boolean masks; tokenizers deliver integers.

Training: every key is hidden, so rows become NaN or plain averages (or, the other way round, all are
visible).

Ask: what is ~1 for an integer, and is that true or false?

Fix: make the mask boolean before negating it: `~mask.bool()`.

Seen in: https://github.com/pytorch/pytorch/issues/24180, https://github.com/deepspeedai/DeepSpeed/issues/3319
(the mirror image: `1 - mask` with a boolean mask)
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.attention import repeat_kv_heads as one_head_each
from softlookup.checker.evidence import Evidence, Judgement, same
from softlookup.terms import Case

LINE = ("turn", "visible", "hide")


def judge(evidence: Evidence) -> Judgement | None:
    """With a boolean mask all is well; the same mask as integers hides everything, or nothing."""
    seen = evidence.probe("integer-mask")
    if seen is None or seen.output is None or seen.case.allowed_mask is None:
        return None
    case, mask = seen.case, seen.case.allowed_mask
    exact = case.double()
    output, real = seen.output, seen.real_rows
    if same(output[real], evidence.steps(exact)[0][real]):
        return None
    values = one_head_each(exact.v, exact)  # [B, H, T_k, d_v]
    shares = mask.double().expand(*output.shape[:-1], values.shape[-2])
    shapes = {
        "every key is visible": evidence.steps(exact.but(allowed_mask=None))[0],
        "every key is hidden: NaN": torch.full(output.shape, math.nan).double(),
        "every key is hidden: zeros": torch.zeros(output.shape).double(),
        "every key is hidden: plain averages": values.mean(dim=-2, keepdim=True).expand_as(output),
        "scores are swamped: averages of the allowed keys": (shares @ values) / shares.sum(-1, keepdim=True),
    }
    for effect, expected in shapes.items():
        if same(output[real], expected[real]):
            return Judgement({"mask dtype": "integer", "effect": effect}, seen_in=seen)
    return None


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        allowed = None if allowed_mask is None else ~(~allowed_mask).bool()
        return STEPS(Case(q, k, v, allowed, causal="top-left" if is_causal else None))[0]

    return attend
