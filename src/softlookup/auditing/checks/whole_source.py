"""Every target token sees the whole source.

Nothing is padded, and the masks of all calls across are read: a mask that is causal hides the later source.
Answers would not tell, as most encoders mix the whole source into each of its states.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from softlookup.audited import Found, Noted
from softlookup.auditing.findings import found
from softlookup.auditing.subject import Subject
from softlookup.recording import RecordedCall, recorded_calls

CODES = ("SL121",)


def applies(subject: Subject) -> str:
    """Ask models that read a source."""
    if subject.source is None:
        return "it reads no source"
    return "its code is compiled, and does not show its masks" if hasattr(subject.model, "_orig_mod") else ""


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Read the masks of one forward."""
    with recorded_calls(subject.model) as calls:
        subject.ask(subject.question())
    across = {it.call.layer: _causal_heads(it) for it in calls if it.call.kind == "cross"}
    causal = {layer: heads for layer, heads in across.items() if len(heads)}
    if causal:
        layer, heads = next(iter(causal.items()))
        sees = heads[0].sum(dim=-1).tolist()
        words = (
            f"nothing is padded, and in {layer} target token 0 sees {sees[0]} of {heads.shape[-1]} source "
            f"tokens, each next one sees one more, and the last sees {sees[-1]}; {len(causal)} layers do so"
        )
        measured = {"heads": len(heads), "source tokens": heads.shape[-1], "target tokens": heads.shape[-2]}
        yield found("SL121", words, layer, measured)


def _causal_heads(call: RecordedCall) -> Tensor:
    """Return the masks of the heads that are causal, from either corner: bool [h, T_q, T_k]."""
    allowed = call.allowed()
    whole = torch.ones_like(allowed[0])
    corners = (whole.tril(), whole.tril(whole.shape[1] - whole.shape[0]))
    return allowed[[not it.all() and any(torch.equal(it, corner) for corner in corners) for it in allowed]]
