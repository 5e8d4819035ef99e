"""Every path that computes attention gives the same answers.

For transformers the implementations eager and sdpa, for every model with gradients switched on, which is
another path in torch.nn. Asked without and with padding on the right; only real tokens are compared.
"""

from collections.abc import Iterator

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import Side, difference
from softlookup.auditing.findings import disagreement
from softlookup.auditing.paths import asked_by, asked_with_gradients, implementation, plain_sides
from softlookup.auditing.subject import Subject

CODES = ("SL705",)
_BY_NAME = ("eager", "sdpa")


def applies(subject: Subject) -> str:
    """Ask every model."""
    return ""


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Ask every path what the plain one is asked."""
    used = implementation(subject)
    for words, question, plain in plain_sides(subject):
        with_graph = Side(asked_with_gradients(subject, question), plain.rows)
        if gap := difference(subject, plain, with_graph):
            yield disagreement(
                subject, "SL705", f"with gradients switched on, {words}", gap, plain, with_graph
            )
        for name in _others(subject):
            other = Side(asked_by(subject, question, name), plain.rows)
            try:
                gap = difference(subject, plain, other)
            except (ValueError, ImportError):
                continue  # the model has no such implementation
            if gap:
                yield disagreement(subject, "SL705", f"by {name} and by {used}, {words}", gap, plain, other)


def _others(subject: Subject) -> list[str]:
    used = implementation(subject)
    if used not in _BY_NAME or not subject.model._can_set_attn_implementation():  # type: ignore[operator]
        return []
    return [name for name in _BY_NAME if name != used]
