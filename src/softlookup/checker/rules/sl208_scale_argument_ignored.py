"""The caller's scale has no effect: the usual 1/sqrt(d_head) is applied whatever was asked for.

Missed because: nearly every caller wants the usual factor and never passes another one.

Training: models with their own factor (muP, Gemma 2, T5) train and infer with the wrong softmax temperature.

Ask: two calls with different scales: do the outputs differ?

Fix: use the argument: `scale = scale if scale is not None else q.shape[-1] ** -0.5`, and pass it on.

Seen in: https://github.com/huggingface/pytorch-image-models/issues/2280,
https://github.com/tenstorrent/tt-metal/issues/33304
"""

from torch import Tensor

from softlookup.attention import scale as scale_scores
from softlookup.checker.evidence import Evidence, Judgement
from softlookup.checker.scales import unread_scale
from softlookup.terms import Case

LINE = ("scale rebound", "scale")


def scale(scores: Tensor, case: Case) -> Tensor:
    return scale_scores(scores, case.but(scale=None))


def judge(evidence: Evidence) -> Judgement | None:
    """An argument of a module's constructor that nothing reads."""
    name = unread_scale(evidence.sketch) if evidence.sketch is not None else None
    return None if name is None else Judgement({"argument": name})
