"""What a loss compares: which token is the target of which answer, found from its value."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from softlookup.auditing.subject import Subject

SHIFTS = (0, 1, 2)
_LOSS_TOLERANCE = 3e-6  # relative: the same mean of the same numbers, in another order
IGNORED = (-100, -1)  # labels that do not count: of torch and transformers, and of nanoGPT


def no_loss(subject: Subject) -> str:
    """Return why a model's loss cannot be asked for; "" where it can."""
    return subject.remembered("no loss", lambda: _no_loss(subject))


def _no_loss(subject: Subject) -> str:
    if not subject.by_token or subject.reader.kind != "ids":
        return "it has no loss over token ids"
    if not subject.call.labels:
        return "it takes no labels"
    try:
        answer = subject.ask(labelled(subject, subject.tokens))
    except (RuntimeError, ValueError, IndexError, TypeError) as problem:
        return f"its loss is none over token ids: {problem}".splitlines()[0][:120]
    if answer.loss is None or answer.loss.dim():
        return "it returns no loss"
    vocabulary = answer.output.shape[-1]
    return "" if int(subject.tokens.max()) < vocabulary else "its answers are no logits over token ids"


def labelled(subject: Subject, labels: Tensor):  # type: ignore[no-untyped-def]
    """Return the plain question with labels; an encoder-decoder makes its target from them."""
    return subject.question().but(labels=labels, tokens_from_labels=bool(subject.call.source))


def expected_shift(subject: Subject) -> int:
    """Return how far the model itself has to shift its labels.

    1: a decoder that is given the tokens as labels, as transformers do. 0: an encoder-decoder, which shifts
    its target instead; a masked model; a model whose argument is called targets, which are the next tokens
    already.
    """
    return int(subject.causal and not subject.call.source and subject.call.labels == "labels")


def loss_with_shift(logits: Tensor, labels: Tensor, shift: int, ignored: int = -100) -> float:
    """Return the mean cross-entropy when the answer at t is compared with the label at ``t + shift``."""
    length = labels.shape[1]
    rows = logits[:, : length - shift].reshape(-1, logits.shape[-1]).float()
    return float(cross_entropy(rows, labels[:, shift:].reshape(-1), ignore_index=ignored))


def shift_of(subject: Subject) -> tuple[int | None, float]:
    """Return the shift that gives the model's loss, None where no shift does, and the loss."""
    return subject.remembered("shift", lambda: _shift_of(subject))


def _shift_of(subject: Subject) -> tuple[int | None, float]:
    labels = subject.tokens
    answer = subject.ask(labelled(subject, labels))
    assert answer.loss is not None
    loss = float(answer.loss)
    near = [shift for shift in SHIFTS if close(loss_with_shift(answer.output, labels, shift), loss)]
    return (near[0] if near else None), loss


def close(a: float, b: float) -> bool:
    """Say whether two losses of the same logits are the same within rounding."""
    return abs(a - b) <= _LOSS_TOLERANCE * max(abs(a), abs(b), 1e-6)


def shifted_right(tokens: Tensor, start: int, times: int) -> Tensor:
    """Return tokens with ``times`` start tokens before them, and as many fewer at the end."""
    starts = torch.full((len(tokens), times), start, device=tokens.device)
    return torch.cat([starts, tokens], 1)[:, : tokens.shape[1]]
