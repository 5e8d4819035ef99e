"""The returned weights are averaged over the heads.

Missed because: rows still sum to one; a map of one head and a mean of all have the same look.

Training: no effect; but a head that looks somewhere else than the others disappears from every plot.

Ask: how many maps does a layer with four heads have, and how many come back?

Fix: return the weights of each head: `average_attn_weights=False`, or drop `weights.mean(dim=1)`.

Seen in: https://github.com/facebookresearch/fairseq/issues/3365; by documented choice in
https://github.com/pytorch/pytorch/issues/34537
"""

import re
from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("average", "normalize")


def judge(evidence: Evidence) -> Judgement | None:
    for seen in sorted(evidence.observations, key=lambda seen: not _of_each_head(seen.probe)):
        given, case = seen.weights, seen.case
        if given is None or case.q.dim() != 4 or case.q.shape[1] == 1 or given.numel() == 0:
            continue
        mean = evidence.steps(case)[1].double().mean(dim=1)  # [B, T_q, T_k]
        given = given[:, 0] if given.dim() == 4 and given.shape[1] == 1 else given
        if given.shape != mean.shape:
            continue
        real = seen.real_rows.all(dim=1)  # [B, T_q]
        if torch.allclose(given[real].double(), mean[real], rtol=1e-3, atol=1e-3):
            promised = evidence.contract.weights == "per head" or _of_each_head(seen.probe)
            facts = {"heads": case.q.shape[1], "shape of the weights": list(given.shape)}
            return Judgement(facts, wrong=promised, seen_in=seen)
    return None


def _of_each_head(probe: str) -> bool:
    """Say whether a switch such as ``need_head_weights`` was on: "path-KIND-SWITCH"."""
    return bool(
        re.fullmatch(r"path-\w+-\w*(per_|each_)?heads?_(weights|attn|attentions?|scores|maps?)", probe)
    )


def mutant() -> Callable[..., tuple[Tensor, Tensor]]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> tuple[Tensor, Tensor]:
        output, weights = STEPS(Case(q, k, v, allowed_mask, causal="top-left" if is_causal else None))
        return output, weights.mean(dim=1)

    return attend
