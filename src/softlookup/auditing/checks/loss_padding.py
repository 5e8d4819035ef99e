"""Padding does not count in the loss.

Two samples end in padding, whose labels say that they do not count. Other tokens in the padding may not move
the loss where the answers for real tokens stay, and the loss is the mean over the labels that count.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted, Number
from softlookup.auditing.findings import found, rounded
from softlookup.auditing.loss import IGNORED, close, labelled, loss_with_shift, no_loss, shift_of
from softlookup.auditing.question import Question
from softlookup.auditing.subject import SAMPLES, Subject

CODES = ("SL806",)
AFTER = ("causality", "right_padding", "batch_neighbours", "loss_shift")


def applies(subject: Subject) -> str:
    """Ask models whose loss is the mean cross-entropy over token ids."""
    return no_loss(subject) or (
        "" if shift_of(subject)[0] is not None else "its loss is no mean cross-entropy"
    )


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Pad two samples and change the padding."""
    shift, _ = shift_of(subject)
    assert shift is not None
    real = torch.ones(subject.tokens.shape[:2], dtype=torch.bool, device=subject.tokens.device)
    for sample in range(1, SAMPLES):
        real[sample, -2 * sample :] = False
    for ignored in IGNORED:
        try:
            loss, logits, labels = _asked(subject, real, ignored, seed=0)
        except (RuntimeError, ValueError, IndexError):
            continue
        other, other_logits, _ = _asked(subject, real, ignored, seed=1)
        expected, from_others = (loss_with_shift(it, labels, shift, ignored) for it in (logits, other_logits))
        numbers: dict[str, Number] = {"loss": rounded(loss), "mean over real tokens": rounded(expected)}
        if close(expected, from_others) and not close(loss, other):
            words = (
                f"labels of padding are {ignored}; other tokens in the padding change the loss to {other:.5g}"
            )
            yield found("SL806", words, "", numbers)
        elif not close(loss, expected):
            counted = int((labels[:, shift:] != ignored).sum())
            every = expected * counted / labels[:, shift:].numel()
            words = f"labels of padding are {ignored}; the loss is not the mean over the others"
            if close(loss, every):
                yield found(
                    "SL806",
                    "the loss is divided by the number of all tokens, padding too",
                    "",
                    numbers,
                )
            else:
                yield Noted("", words)
        return
    yield Noted("", f"no label was found that does not count; tried {' and '.join(map(str, IGNORED))}")


def _asked(
    subject: Subject, real: torch.Tensor, ignored: int, seed: int
) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Return loss, logits and labels with padding that holds other tokens for another seed."""
    labels = torch.where(real, subject.tokens, ignored)
    question: Question = labelled(subject, labels)
    if not question.tokens_from_labels:
        pads = subject.padding(*subject.tokens.shape[:2])
        pads = subject.other_tokens(pads, seed=seed) if seed else pads
        question = question.but(
            tokens=torch.where(real, subject.tokens, pads), real=real if subject.call.mask else None
        )
    answer = subject.ask(question)
    assert answer.loss is not None
    return float(answer.loss), answer.output, labels
