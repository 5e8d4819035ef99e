"""The fill does not fit into float16 (its lowest number is -65504), or two fills add up to -inf.

Missed because: float32 and bfloat16 hold -1e9; float16 raises or turns it into -inf, and min + min is -inf
anywhere.

Training: mixed precision stops with an error, or rows that are masked twice become NaN.

Ask: what is the lowest number that float16 can hold?

Fix: fill once, with the dtype's own lowest number: `scores.masked_fill(~allowed_mask,
torch.finfo(scores.dtype).min)`.

Seen in: https://github.com/facebookresearch/fairseq/issues/3575, https://github.com/openai/gpt-2/pull/122,
https://github.com/huggingface/lerobot/pull/710, https://github.com/huggingface/transformers/pull/27114,
https://github.com/NVIDIA-NeMo/Automodel/pull/2658
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import repeat_kv_heads as one_head_each
from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence, Judgement, Observation
from softlookup.terms import Case

LINE = ("join", "hide")


def judge(evidence: Evidence) -> Judgement | None:
    """A fill that only float16 cannot hold is a note, unless half precision is declared."""
    for seen in evidence.probes("half"):
        if seen.case.q.dtype == torch.float16 and (effect := _overflow(evidence, seen)):
            wrong = bool(evidence.contract.half) or evidence.contract.dtype == "float16"
            return Judgement({"probe": seen.probe, "effect": effect}, wrong=wrong, seen_in=seen)
    for seen in evidence.probes("empty-row"):
        if _masked_once_only(seen):
            facts = {"probe": seen.probe, "effect": "two fills add up to -inf"}
            text = "Two finite fills add up to -inf: a row without keys averages what one mask alone hides."
            return Judgement(facts, summary=text, seen_in=seen)
    return None


def _overflow(evidence: Evidence, seen: Observation) -> str:
    """Say what breaks in float16 where the same steps in float16 do not."""
    if seen.failure is not None:
        return seen.failure.message if "overflow" in seen.failure.message.lower() else ""
    if seen.output is None or all_rules(seen.case) is None:
        return ""
    real = evidence.rows(seen)
    finite = evidence.steps(seen.case)[0][real].isfinite()
    return "NaN or inf" if (finite & ~seen.output[real].isfinite()).any() else ""


def _masked_once_only(seen: Observation) -> bool:
    """Say whether rows without keys average just those keys that one of two rules hides."""
    case = seen.case
    if seen.output is None or case.allowed_mask is None or case.causal is None:
        return False
    causal = all_rules(Case(case.q, case.k, case.v, causal=case.causal))
    assert causal is not None
    once = (case.allowed_mask ^ causal).expand(*case.q.shape[:-1], case.k.shape[-2])  # [B, H, T_q, T_k]
    rows = ~seen.real_rows & once.any(dim=-1) & ~once.all(dim=-1)
    shares = once.double() / once.sum(dim=-1, keepdim=True).clamp(min=1)
    mean = shares @ one_head_each(case.v, case).double()
    return bool(rows.any()) and torch.allclose(seen.output[rows].double(), mean[rows], rtol=1e-2, atol=1e-3)


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        allowed = all_rules(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))
        scores = scores if allowed is None else scores.masked_fill(~allowed, -1e9)
        return scores.softmax(dim=-1) @ v

    return attend
