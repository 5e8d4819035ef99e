"""The loss compares each answer with the next token, shifted once.

The loss is computed again from the model's own logits with the labels shifted by none, one and two tokens:
the one that gives the model's loss is what it does. An encoder-decoder shifts its target: its logits are
compared with those for a target that was shifted by hand.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import difference, one_forward
from softlookup.auditing.findings import found, rounded
from softlookup.auditing.loss import expected_shift, labelled, no_loss, shift_of, shifted_right
from softlookup.auditing.subject import Subject

CODES = ("SL807", "SL808")


def applies(subject: Subject) -> str:
    """Ask models that compute a loss over token ids."""
    return no_loss(subject)


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Find out which target each answer is compared with."""
    shift, loss = shift_of(subject)
    wanted = expected_shift(subject)
    steps = _target_steps(subject) if subject.call.source else 1 if wanted else None
    if shift is None:
        yield Noted(
            "", f"the loss {loss:.4g} is no mean cross-entropy of the logits for any shift of the labels"
        )
    elif steps is None:
        yield Noted("", f"the answer at t is compared with {subject.call.labels}[t + {shift}]")
    elif shift - wanted + steps == 0:
        words = "each answer is compared with the token that it was given"
        yield found("SL807", words, "", {"loss": rounded(loss), "shift of the labels": shift})
    elif shift - wanted + steps == 2:
        words = "each answer is compared with the token after the next one"
        yield found("SL808", words, "", {"loss": rounded(loss), "shift of the labels": shift})


def _target_steps(subject: Subject) -> int | None:
    """Return by how many tokens an encoder-decoder shifts its target; None where no shift explains it."""
    start = getattr(subject.config, "decoder_start_token_id", None)
    if start is None:
        return None
    auto = one_forward(subject, labelled(subject, subject.tokens))
    for steps in (1, 0, 2):
        by_hand = subject.question(shifted_right(subject.tokens, start, steps))
        if difference(subject, one_forward(subject, by_hand), auto) is None:
            return steps
    return None
