"""In bfloat16 the answers stay near those in float32.

Budget: what rounding the parameters alone does, the computation staying in float32. A layer that is computed
in bfloat16 adds as much again, several times over; a mask that overflows, or a sum in the wrong place, adds
far more.
"""

from collections.abc import Iterator
from contextlib import ExitStack

import torch
from torch import Tensor

from softlookup.audited import Found, Noted
from softlookup.auditing.findings import found, rounded
from softlookup.auditing.subject import Subject
from softlookup.auditing.untouched import in_dtype

CODES = ("SL702",)
_TIMES = 12.0  # right models of 14 families: 1.2 to 3.6
_FLOOR = 0.03  # of the size of the answers


def applies(subject: Subject) -> str:
    """Ask every model; one that cannot run in bfloat16 says so itself."""
    return ""


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Compare bfloat16 with float32."""
    right = subject.plain.output[:1].float()
    try:
        half, by_rounding = _half_and_rounded(subject)
    except RuntimeError:  # a table that is added to them has to be of the dtype of the embeddings
        half, by_rounding = _half_and_rounded(subject, buffers=True)
    error, budget = _error(half, right), max(_TIMES * _error(by_rounding, right), _FLOOR)
    if not error <= budget:
        words = f"in bfloat16 the answers are off by {error:.2g} of their size, where {budget:.2g} is granted"
        yield found("SL702", words, None, {"error": rounded(error), "budget": rounded(budget)})


def _error(output: Tensor, right: Tensor) -> float:
    """Return the root of the mean squared error, relative to the spread of the right answers."""
    spread = (right - right.mean(-1, keepdim=True)).square().mean().sqrt().clamp_min(1e-12)
    return float((output - right).square().mean().sqrt() / spread)


def _half_and_rounded(subject: Subject, *, buffers: bool = False) -> tuple[Tensor, Tensor]:
    """Return the answers in bfloat16, and those in float32 of what was rounded to it."""
    return (
        _asked(subject, torch.bfloat16, buffers=buffers),
        _asked(subject, torch.bfloat16, torch.float32, buffers=buffers),
    )


def _asked(subject: Subject, *dtypes: torch.dtype, buffers: bool) -> Tensor:
    """Return the answers with parameters that were rounded to each of these dtypes in turn."""
    question = subject.question(subject.tokens[:1], torch.zeros(1, dtype=torch.long))  # half is slow on a CPU
    with ExitStack() as rounding:
        for dtype in dtypes:
            rounding.enter_context(in_dtype(subject.model, dtype, buffers=buffers))
        if question.tokens.is_floating_point():
            question = question.but(tokens=question.tokens.to(dtypes[0]).to(dtypes[-1]))
        if question.source is not None and question.source.is_floating_point():
            question = question.but(source=question.source.to(dtypes[0]).to(dtypes[-1]))
        return subject.ask(question).output.float()
