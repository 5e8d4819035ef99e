"""In half precision the error is beyond its budget: larger than that of the plain formula in the same dtype.

Missed because: half precision is expected to be inexact, and loose tolerances let real mistakes through.

Training: gradients carry more noise than the dtype explains; long rows lose their small weights first.

Ask: in which dtype are the exponentials summed up?

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
#: How far off the scale may be: stored in bfloat16 it is off by 0.4 % at most. Noise may hide more.
SCALE_OFF, TIMES_NOISE = 0.006, 6.0
_STEP = 1e-3


def judge(evidence: Evidence) -> Judgement | None:
    for seen in evidence.probes("half"):
        real = evidence.rows(seen)
        if seen.output is None or seen.case.q.dtype not in (torch.float16, torch.bfloat16) or not real.any():
            continue
        exact = evidence.steps(seen.case.double())[0][real]
        plain = evidence.steps(seen.case)[0][real].double() - exact
        error = seen.output[real].double() - exact
        if not (plain.isfinite().all() and error.isfinite().all()):
            continue  # overflow has a rule of its own
        rounding = torch.finfo(seen.case.q.dtype).eps * exact.abs().mean()
        facts = _above_budget(error.abs(), plain.abs(), rounding)
        facts = facts or _scale_off(evidence, seen, error, plain)
        if facts:
            facts |= {"probe": seen.probe, "dtype": str(seen.case.q.dtype).removeprefix("torch.")}
            return Judgement(facts, seen_in=seen)
    return None


def _above_budget(error: Tensor, plain: Tensor, rounding: Tensor) -> dict[str, float | str]:
    """Compare mean and worst error with those of the plain formula."""
    # A sum that is rounded shifts its whole row: by luck, which averages out over many rows.
    luck = rounding / (2 * len(error) ** 0.5)
    too_much = error.mean() > MEAN_FACTOR * plain.mean() + luck
    if not too_much and not error.max() > MAX_FACTOR * (plain.max() + 2 * rounding):
        return {}
    return {
        "mean error": float(error.mean()),
        "mean error of the plain formula": float(plain.mean()),
        "max error": float(error.max()),
        "max error of the plain formula": float(plain.max()),
    }


def _scale_off(evidence: Evidence, seen: Observation, error: Tensor, plain: Tensor) -> dict[str, float | str]:
    """Measure the scale: rounding scatters, a wrong scale moves all outputs by d(output)/d(log scale)."""
    case, real = seen.case.double(), evidence.rows(seen)
    more, less = (evidence.steps(case.but(q=case.q * (1 + step)))[0][real] for step in (_STEP, -_STEP))
    way = (more - less) / (2 * _STEP)
    size = float(way.norm())
    if size < 1e-6:  # lengths of queries do not count here
        return {}
    off, plain_off = (float((x * way).sum()) / size**2 for x in (error, plain))
    # The entries of a row share the rounding of its weights, and it is largest where the scale moves most.
    shared = float((plain * way).sum(dim=-1).norm()) / size**2
    noise = max(float(plain.std()) / size, shared)
    if abs(off - plain_off) <= max(SCALE_OFF, TIMES_NOISE * noise) or abs(off) <= SCALE_OFF:
        return {}
    return {"scale off by": off, "the same of the plain formula": plain_off}


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
