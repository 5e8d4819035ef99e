"""In half precision the error is beyond its budget: larger than that of the plain formula in the same dtype.

Missed because: half precision is expected to be inexact, and loose tolerances let real mistakes through.

Training: gradients carry more noise than the dtype explains; long rows lose their small weights first.

Fix: accumulate sums in float32: `powers.sum(dim=-1, keepdim=True, dtype=torch.float32)`.

Seen in: https://github.com/tinygrad/tinygrad/pull/12280
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence, Judgement, Observation
from softlookup.terms import Case

LINE = ("running sum", "normalize", "mix", "score")
NEEDS_FORWARD = True
JUDGES_ROUNDING = True
FOLLOWS_OTHERS = True
#: How many times the plain formula's error is allowed: for the mean, and for the worst entry (luck in part).
MEAN_FACTOR, MAX_FACTOR = 2.0, 4.0


def judge(evidence: Evidence) -> Judgement | None:
    for seen in evidence.probes("half"):
        measured = _errors(evidence, seen)
        if measured is None:
            continue
        mean, worst, plain_mean, plain_worst, floor = measured
        if mean > MEAN_FACTOR * plain_mean + floor or worst > MAX_FACTOR * (plain_worst + 2 * floor):
            facts = {
                "probe": seen.probe,
                "dtype": str(seen.case.q.dtype).removeprefix("torch."),
                "mean error": mean,
                "mean error of the plain formula": plain_mean,
                "max error": worst,
                "max error of the plain formula": plain_worst,
            }
            return Judgement(facts, seen_in=seen)
    return None


def _errors(evidence: Evidence, seen: Observation) -> tuple[float, float, float, float, float] | None:
    """Return mean and max error, those of the plain formula, and the rounding of the output."""
    case, real = seen.case, evidence.rows(seen)
    if seen.output is None or case.q.dtype not in (torch.float16, torch.bfloat16) or not real.any():
        return None
    exact = evidence.steps(case.double())[0][real]
    plain = (evidence.steps(case)[0][real].double() - exact).abs()
    error = (seen.output[real].double() - exact).abs()
    if not (plain.isfinite().all() and error.isfinite().all()):
        return None  # overflow has a rule of its own
    floor = torch.finfo(case.q.dtype).eps * float(exact.abs().mean())
    return float(error.mean()), float(error.max()), float(plain.mean()), float(plain.max()), floor


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        if q.dtype in (torch.float16, torch.bfloat16):  # "half the memory traffic"
            q, k = q.to(torch.float8_e4m3fn).to(q.dtype), k.to(torch.float8_e4m3fn).to(k.dtype)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        allowed = all_rules(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))
        lowest = torch.finfo(scores.dtype).min
        scores = scores if allowed is None else scores.masked_fill(~allowed, lowest)
        return scores.softmax(dim=-1) @ v

    return attend
