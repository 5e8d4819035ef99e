"""The backward pass disagrees with the forward pass: the gradient is that of another function, or is cut off.

Missed because: the outputs are right, and gradient descent forgives a gradient that points roughly downhill.

Training: learns slower or stalls; a gradient cut by `detach` leaves one projection untrained.

Ask: nudge one input a little: does the output move as the gradient says?

Fix: derive the backward pass again and test it: `torch.autograd.gradcheck(attend, (q, k, v))` in float64.

Seen in: https://github.com/triton-lang/triton/issues/5660,
https://github.com/NVIDIA-NeMo/Automodel/pull/3157, https://github.com/pytorch/pytorch/issues/153799,
https://github.com/pytorch/pytorch/issues/119320
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence, Judgement, Observation, same
from softlookup.terms import Case

LINE = ("cut", "score", "mix")
NEEDS_FORWARD = True
FOLLOWS_OTHERS = True


def judge(evidence: Evidence) -> Judgement | None:
    """Compare with autograd through the steps in float64, where the outputs agree and every row has a key."""
    for seen in evidence.probes("gradients"):
        if seen.output is None or seen.cotangent is None or not seen.gradients or not seen.real_rows.all():
            continue
        errors = _errors(evidence, seen)
        limit = 1e-2 if seen.output.dtype.itemsize >= 4 else 0.1
        wrong = {name: error for name, error in errors.items() if not error < limit}
        if wrong:
            return Judgement({"relative error of the gradient": wrong, "probe": seen.probe}, seen_in=seen)
    return None


def _errors(evidence: Evidence, seen: Observation) -> dict[str, float]:
    case = seen.case
    exact = {name: getattr(case, name).detach().double().requires_grad_() for name in ("q", "k", "v")}
    with torch.enable_grad():
        output = evidence.steps(case.but(**exact))[0]
        assert seen.output is not None
        assert seen.cotangent is not None
        if not same(seen.output, output):
            return {}
        total = (output * seen.cotangent.double()).sum()
        expected = dict(
            zip(exact, torch.autograd.grad(total, list(exact.values()), allow_unused=True), strict=True)
        )
    errors = {}
    for name, found in expected.items():
        right = torch.zeros_like(exact[name]) if found is None else found
        if not right.isfinite().all():  # the bug that explains the target spoils its own gradient
            continue
        given = seen.gradients.get(name, torch.zeros_like(right)).double()  # none at all counts as zero
        errors[name] = float((given - right).norm() / (right.norm() + 1e-6))
    return errors


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        factor = q.shape[-1] ** -0.5
        unscaled = q + (q * (factor - 1)).detach()  # the right value; the gradient forgets the factor
        causal = "top-left" if is_causal else None
        return STEPS(Case(unscaled, k, v, allowed_mask, causal=causal, scale=1.0))[0]  # type: ignore[arg-type]

    return attend
