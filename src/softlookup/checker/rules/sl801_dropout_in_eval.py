"""Dropout stays on in evaluation: two runs on the same input differ.

Missed because: `dropout_p=self.p` looks complete; the functional call has no training flag of its own.

Training: none; evaluation, generation and caching are noisy, and scores are a little worse than they should
be.

Ask: what tells this line whether the model is in training?

Fix: pass the mode along: `dropout_p=self.p if self.training else 0.0`.

Seen in: https://github.com/huggingface/pytorch-image-models/pull/1978,
https://github.com/meta-pytorch/torchtune/issues/1791, https://github.com/wenet-e2e/wenet/issues/2699,
https://github.com/NVIDIA/torch-harmonics/pull/221
"""

from collections.abc import Callable

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.terms import Case

LINE = ("drop",)
FOLLOWS_OTHERS = True
EXPLAINS = "every output"


def judge(evidence: Evidence) -> Judgement | None:
    first, second = evidence.probe("repeat-1"), evidence.probe("repeat-2")
    if first is None or second is None or first.output is None or second.output is None:
        return None
    one, two = first.output[first.real_rows].double(), second.output[second.real_rows].double()
    if torch.allclose(one, two, rtol=1e-3, atol=1e-5, equal_nan=True):
        return None
    return Judgement({"largest difference": float((one - two).abs().max())}, seen_in=second)


def mutant() -> Callable[..., Tensor]:
    def attend(
        q: Tensor, k: Tensor, v: Tensor, allowed_mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        causal = "top-left" if is_causal else None
        return STEPS(Case(q, k, v, allowed_mask, causal=causal, dropout_p=0.1))[0]  # type: ignore[arg-type]

    return attend
