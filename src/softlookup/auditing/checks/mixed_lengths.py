"""In a batch of samples of different length each one is answered as if it were alone.

The first sample is full, the others are padded by two and by four tokens, on the left where later tokens are
hidden anyway. A mask that is taken from another sample of the batch shows here, and not where all have the
same length.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference, one_forward, rows_where
from softlookup.auditing.findings import disagreement
from softlookup.auditing.padding import no_padding
from softlookup.auditing.question import Question
from softlookup.auditing.subject import SAMPLES, Subject

CODES = ("SL112", "SL905")
AFTER = ("causality", "whole_source", "right_padding", "left_padding", "batch_neighbours")


def applies(subject: Subject) -> str:
    """Ask models that take a padding mask for what they read."""
    return no_padding(subject) or ("" if subject.call.mask else "it takes no padding mask for this stream")


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Ask all samples together, and each as often as there are samples, so that only the mask differs."""
    real = torch.ones(subject.tokens.shape[:2], dtype=torch.bool, device=subject.tokens.device)
    for sample in range(1, SAMPLES):
        pads = slice(2 * sample) if subject.causal else slice(-2 * sample, None)
        real[sample, pads] = False
    question = subject.question().but(real=real)
    for sample in range(SAMPLES):
        rows = torch.zeros_like(real)
        rows[sample] = real[sample]
        alone = question.but(**_repeated(question, sample), real=real[sample].repeat(SAMPLES, 1))
        one, other = (one_forward(subject, it, rows_where(rows)) for it in (alone, question))
        gap = difference(subject, one, other)
        if gap is None:
            continue
        code, words = "SL905", "is answered differently beside samples of other lengths"
        for neighbour in set(range(SAMPLES)) - {sample}:
            borrowed = question.but(real=real[neighbour].repeat(SAMPLES, 1))
            if difference(subject, one_forward(subject, borrowed, rows_where(rows)), other) is None:
                code, words = "SL112", f"is answered with the mask of sample {neighbour}"
        yield disagreement(subject, code, f"sample {sample} {words}", gap, one, other)
        return


def _repeated(question: Question, sample: int) -> dict[str, torch.Tensor]:
    """Return the tokens of one sample, and its source, once for each sample of the batch."""
    alike = {"tokens": question.tokens[sample : sample + 1].expand_as(question.tokens).contiguous()}
    if question.source is not None:
        alike["source"] = question.source[sample : sample + 1].expand_as(question.source).contiguous()
    return alike
