"""NaN in hidden padding stays there. A convention: most implementations let it out, as 0 times NaN is NaN.

The embeddings of padding on the right are NaN.
"""

from collections.abc import Iterator

import torch

from softlookup.audited import Found, Noted
from softlookup.auditing.padding import Padded, no_padding
from softlookup.auditing.subject import Subject

CODES = ("SL404",)
AFTER = ("right_padding",)


def applies(subject: Subject) -> str:
    """Ask models that take numbers and a padding mask."""
    if no_padding(subject) or not subject.call.mask:
        return no_padding(subject) or "it takes no padding mask for this stream"
    if not subject.by_token:
        return "it answers for a sample as a whole"
    return "" if subject.call.embeddings else "it takes no embeddings"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Let the padding be NaN."""
    padded = Padded(subject)
    question = padded.question()
    tokens = question.tokens
    if not tokens.is_floating_point():
        with torch.no_grad():
            tokens = subject.model.get_input_embeddings()(tokens)  # type: ignore[operator]
    poisoned = tokens.masked_fill(~padded.real[..., None], float("nan"))
    output = subject.ask(question.but(tokens=poisoned)).output[:, : padded.plain.shape[1]]
    if not output.isfinite().all():
        yield Noted("", "NaN in hidden padding reaches real tokens", "SL404")
