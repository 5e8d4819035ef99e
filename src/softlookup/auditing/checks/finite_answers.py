"""The answers are numbers: no NaN and no infinity.

The plain question is asked, without any padding.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.findings import found
from softlookup.auditing.subject import Subject
from softlookup.live.layer_outputs import recorded_layers

CODES = ("SL000", "SL401")


def applies(subject: Subject) -> str:
    """Ask every model."""
    return ""


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Look for the first layer that makes something else of numbers."""
    wrong = ~subject.plain.output.isfinite()
    if not wrong.any():
        return
    with recorded_layers(subject.model) as seen:
        subject.ask(subject.question())
    makers = (it.path for it in seen.calls if _finite(it.given) and not _finite(it.output))
    layer = next(makers, None)
    words = f"{int(wrong.sum())} of {wrong.numel()} numbers are NaN or infinite although nothing was padded"
    if layer in subject.attention_modules:
        yield found("SL401", words, layer)
    else:
        yield Found("SL000", "unrecognised", "", words, "look at what this layer computes", layer)


def _finite(tensor: torch.Tensor | None) -> bool:
    return tensor is None or bool(tensor.isfinite().all())
