"""Compiled paths give the same answers: the model under torch.compile, and flex_attention in transformers.

Asked only when wanted (``compiled=True``, ``--compiled``): compiling takes a C++ compiler and minutes.
"""

from collections.abc import Iterator
from typing import cast

import torch
from torch import nn

from softlookup.audited import Found, Noted
from softlookup.auditing.comparing import Side, difference
from softlookup.auditing.findings import disagreement, found_between
from softlookup.auditing.paths import asked_by, asked_compiled, implementation, plain_sides
from softlookup.auditing.subject import Subject

CODES = ("SL705",)
AFTER = ("attention_paths",)


def applies(subject: Subject) -> str:
    """Ask where the user wants it."""
    return "" if subject.compiled else "it was not asked for: compiled=True, or --compiled"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Compile the model, then its attention."""
    compiled = cast(nn.Module, torch.compile(subject.model, dynamic=True))
    for words, question, plain in plain_sides(subject):
        other = Side(asked_compiled(subject, question, compiled), plain.rows)
        if gap := difference(subject, plain, other):
            yield found_between("SL705", f"under torch.compile, {words}", gap, None)
    if not getattr(subject.model, "_supports_flex_attn", False) or not implementation(subject):
        return
    for words, question, plain in plain_sides(subject):
        other = Side(asked_by(subject, question, "flex_attention"), plain.rows)
        if gap := difference(subject, plain, other):
            yield disagreement(subject, "SL705", f"by flex_attention, {words}", gap, plain, other)
