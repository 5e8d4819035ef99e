"""NaN or inf in a hidden key or value reaches the output, because 0 * NaN is NaN.

Missed because: hidden entries are usually zeros or old numbers; uninitialised cache memory may hold anything.

Training: one broken padded position makes every query of its sample NaN.

Ask: what is 0 times NaN?

Fix: clear hidden values before the mix: `v.masked_fill(~key_is_real[..., None], 0.0)`.

Seen in: https://github.com/pytorch/pytorch/issues/101967
"""

from collections.abc import Callable

from torch import Tensor, nn

from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("mix",)
FOLLOWS_OTHERS = True


def judge(evidence: Evidence) -> Judgement | None:
    """A note, unless the contract promises that hidden keys are isolated."""
    for seen in evidence.observations:
        case, real = seen.case, seen.real_rows
        if seen.output is None or (case.k.isfinite().all() and case.v.isfinite().all()):
            continue
        expected = evidence.steps(case)[0]
        leaks = expected[real].isfinite() & ~seen.output[real].isfinite()
        if leaks.any():
            wrong = evidence.contract.declares("hidden_nan") and evidence.contract.hidden_nan == "isolated"
            return Judgement({"probe": seen.probe, "entries": int(leaks.sum())}, wrong=wrong, seen_in=seen)
    return None


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        allowed = all_rules(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)

    return attend
