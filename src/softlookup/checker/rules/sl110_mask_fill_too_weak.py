"""Hidden keys are filled with a finite number that real scores can reach, so they keep weight.

Missed because: the fill is typed once: 1e-9 for -1e9, a lost sign, a "large" constant from smaller scores.

Training: padding or future keys take part; how much depends on the size of the scores, so it grows as they
do.

Ask: how large do scores get in a trained model, and how much weight has a key that lies only so far below?

Fix: fill with minus infinity, or the lowest number of the dtype: `scores.masked_fill(~allowed_mask,
-math.inf)`.

Seen in: https://github.com/awslabs/gluonts/pull/1401, https://github.com/hyunwoongko/transformer/issues/10,
https://github.com/TransformerLensOrg/TransformerLens/pull/366,
https://github.com/30stomercury/Interaction-Aware-Attention-Network/issues/1
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.attention import hide as hide_all
from softlookup.attention import repeat_kv_heads as one_head_each
from softlookup.attention import scale as scale_scores
from softlookup.attention import visible as all_rules
from softlookup.checker.calls import Recorded
from softlookup.checker.evidence import Evidence, Judgement, Observation
from softlookup.terms import Case

LINE = ("mask scores", "hide")
COMMON = (0.0, -1.0, -10.0, -50.0, -100.0, -1e3, -1e4, -1e5, -1e6, -1e8, -1e9, 1.0, 1e4, 1e9)
#: Fills from here down are in use on purpose: -100 in Swin, -1e4 in BERT.
DELIBERATE = -90.0

Variant = tuple[float, str, str]


def VARIANTS(evidence: Evidence) -> Iterator[Variant]:  # noqa: N802
    """The fill that the answers show: after scaling or before it, by every rule or by the mask alone."""
    reach = evidence.contract.max_score or 0.0
    beyond = (
        [(-reach / 100, 1.0)] if reach else []
    )  # any number between ordinary scores and those of size reach
    yield from ((fill, "added", "all") for fill in COMMON if min(DELIBERATE, -reach) < fill < -1)
    # These leave no row in between: hidden keys get nothing, or everything; 0 stands for 1e-9 too.
    extremes = [(fill, 1.0) for fill in (0.0, -1.0, -5.0, -10.0, -50.0, 1e9)]
    for fill, factor in [*_measured(evidence), *extremes, *beyond]:
        if fill > min(DELIBERATE, -reach):
            for which in ("all", "mask", "mask last"):
                yield fill, "scaled", which
                yield _round(fill / factor, 1e-4), "unscaled", which


def hide(scores: Tensor, allowed: Tensor | None, case: Case, variant: Variant) -> Tensor:
    fill, when, which = variant
    bias = case.additive_bias
    finite = case if bias is None else case.but(additive_bias=bias.masked_fill(bias == -math.inf, 0.0))
    if when == "added":
        scores = hide_all(scores, None, finite)
        return scores if allowed is None else scores + fill * (~allowed).to(scores.dtype)
    level = scores.new_tensor(fill)
    level = scale_scores(level, case) if when == "unscaled" else level
    if which == "all":
        scores = hide_all(scores, None, finite)
        return scores if allowed is None else torch.where(allowed, scores, level)
    given = all_rules(Case(case.q, case.k, case.v, case.allowed_mask, case.additive_bias))
    others = all_rules(case.but(allowed_mask=None, additive_bias=None))
    if which == "mask last":  # the weak fill overwrites the -inf of the other rules
        scores = hide_all(scores, others, finite)
        return scores if given is None else torch.where(given, scores, level)
    scores = hide_all(scores, None, finite)
    scores = scores if given is None else torch.where(given, scores, level)
    return hide_all(scores, others, case.but(additive_bias=None))


def judge(evidence: Evidence) -> Judgement | None:
    """A fill of -100 or -1e4 leaks only once scores are as large: a note, unless they are said to be."""
    fills = [fill for _, _, fill, _ in _shown(evidence)]
    for fill, _ in _measured(evidence):
        # What is added to a score, instead of replacing it, shows another "fill" in every probe.
        if fill <= DELIBERATE and max(fills) - min(fills) < 0.05 * abs(fill):
            reach = evidence.contract.max_score
            text = f"hidden keys are filled with about {fill:g}: larger scores would let them in"
            return Judgement({"fill": fill}, wrong=reach is not None and -reach <= fill, summary=text)
    return None


def recorded(calls: tuple[Recorded, ...]) -> bool:
    """Multiplying by the mask (mask-multiplies-scores) gives the same scores as filling with 0."""
    return any(call.op.strip("_") in {"masked_fill", "where"} and _zero(call) for call in calls)


def _zero(call: Recorded) -> bool:
    return not call.numbers or any(abs(number) < 1e-3 for number in call.numbers)


def _measured(evidence: Evidence) -> list[tuple[float, float]]:
    """Return (fill, scale factor of its case) as the clearest row of any probe shows it, at most one."""
    found = _shown(evidence)
    return [max(found)[2:]] if found else []


def _shown(evidence: Evidence) -> list[tuple[float, float, float, float]]:
    return [shown for seen in evidence.observations if (shown := _fill_of(seen)) is not None]


def _fill_of(seen: Observation) -> tuple[float, float, float, float] | None:
    """Return (precision, how much leaks, fill, scale factor) of the row that shows the fill best.

    With hidden keys at score f, a row is (A + u V) / (Z + u n), where u = exp(f), A and Z are the sums of
    exp(score) * value and exp(score) over visible keys, V and n those of values and ones over hidden keys.
    That is linear in u: u = (A - out Z) / (out n - V).
    """
    case, output = seen.case, seen.output
    if output is None or case.additive_bias is not None or not _finite(case):
        return None
    case = case.double()
    keys, values = one_head_each(case.k, case), one_head_each(case.v, case)
    scores, allowed = scale_scores(STEPS.score(case.q, keys, case), case), all_rules(case)
    if (
        allowed is None
        or output.shape != (*scores.shape[:-1], values.shape[-1])
        or not output.isfinite().all()
    ):
        return None
    allowed, output, eps = allowed.expand(scores.shape), output.double(), torch.finfo(output.dtype).eps
    top = scores.masked_fill(~allowed, -math.inf).amax(dim=-1, keepdim=True)  # [..., T_q, 1]
    powers = (scores - top).exp().masked_fill(~allowed, 0.0)
    A, Z = powers @ values, powers.sum(dim=-1, keepdim=True)
    V, n = (~allowed).to(values.dtype) @ values, (~allowed).sum(dim=-1, keepdim=True)
    slope = output * n - V
    u = ((A - output * Z) * slope).sum(dim=-1, keepdim=True) / slope.square().sum(dim=-1, keepdim=True)
    leak = u * n / (u * n + Z)  # share of the hidden keys
    missed = (output - (A + u * V) / (Z + u * n)).norm(dim=-1, keepdim=True)
    near = missed < max(1e-2, 16 * eps) * (output - A / Z).norm(dim=-1, keepdim=True)
    clear = torch.where((u > 0) & near, leak * (1 - leak), 0.0).flatten()
    if float(clear.max()) < max(1e-4, 16 * eps):
        return None
    best = int(clear.argmax())
    fill = float(u.flatten()[best].log() + top.flatten()[best])
    return -eps, float(clear[best]), _round(fill, 4 * eps), float(scale_scores(scores.new_ones(()), case))


def _finite(case: Case) -> bool:
    return bool(case.k.isfinite().all() and case.v.isfinite().all())


def _round(fill: float, tolerance: float) -> float:
    """Snap to a number that people type, when the measured one is next to it."""
    return next((c for c in COMMON if abs(fill - c) <= max(2e-4, tolerance) * max(1.0, abs(c))), fill)
