"""An audit: every check that applies, asked of one model, which is left as it was."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from softlookup.audited import Audit, Found, Noted
from softlookup.auditing.discover import FIRST, Check, all_checks
from softlookup.auditing.subject import Subject, subject_of
from softlookup.auditing.untouched import left_as_it_was
from softlookup.checker.keeping import Kept
from softlookup.terms import SoftlookupError


def audit(
    model: nn.Module,
    inputs: Mapping[str, Any] | Tensor | None = None,
    *,
    causal: bool | None = None,
    packed: bool = False,
    compiled: bool = False,
) -> Audit:
    """Ask a whole model the questions that attention must answer in one way: causality, padding, cache, loss.

    The model is asked in evaluation mode and float32 with a handful of small inputs, and left exactly as it
    was: training flags, buffers, gradients, dtype and the state of the random generators.

    model: a transformers model, a layer of torch.nn, or a module of one's own that takes token ids [B, T] or
        numbers [B, T, d_model]
    inputs: arguments of one forward, or the tokens alone; without them small ones are made
    causal: whether the model promises that no token sees a later one; without it this is read off the model
    packed: documents in one row are to be kept apart by position ids that start anew
    compiled: ask compiled paths too; needs a C++ compiler and minutes

    Raises: SoftlookupError when no way was found to call the model, with what to give as ``inputs``.

    >>> from torch import nn
    >>> layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    >>> audit(layer).named()
    []
    """
    if not isinstance(model, nn.Module):
        raise SoftlookupError(
            "audit: this is no model.",
            expected="a torch.nn.Module",
            got=type(model).__name__,
            hint="load it first, or use `softlookup audit PATH`",
        )
    begin = time.perf_counter()
    with left_as_it_was(model):
        subject = subject_of(model, inputs, causal, packed, compiled)
        return replace(_asked(subject), seconds=round(time.perf_counter() - begin, 2))


def _asked(subject: Subject) -> Audit:
    findings: dict[tuple[str, str | None], Found] = {}
    notes: list[Noted] = []
    asked: list[str] = []
    not_asked: dict[str, str] = {}
    failed: dict[str, str] = {}
    kept = Kept(subject.model, parameters=False)
    for check in all_checks():
        if reason := _reason_not_to_ask(check, subject, list(findings.values())):
            not_asked[check.name] = reason
            continue
        try:
            for it in check.run(subject):
                if isinstance(it, Noted):
                    notes.append(replace(it, check=check.name))
                else:
                    findings.setdefault((it.code, it.layer), replace(it, check=check.name))
        except Exception as problem:
            failed[check.name] = f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
        else:
            asked.append(check.name)
        finally:
            kept.restore(thoroughly=True)  # e.g. tables that a forward in bfloat16 has rounded for good
    sizes = {"samples": len(subject.tokens), "tokens": subject.tokens.shape[1]}
    name = type(subject.model).__name__
    found = tuple(findings.values())
    return Audit(name, subject.call.words, sizes, found, tuple(notes), tuple(asked), not_asked, failed)


def _reason_not_to_ask(check: Check, subject: Subject, findings: list[Found]) -> str:
    """Return why a check is not asked; "" where it is."""
    first = () if check.name in FIRST else FIRST
    for name in (*first, *check.after):
        before = next((it for it in findings if it.check == name), None)
        if before is not None:
            return f"{before.code} {before.name} was found by {name!r}, which this would only repeat"
    try:
        return check.applies(subject)
    except Exception as problem:
        return f"it raised {type(problem).__name__}: {problem}".splitlines()[0][:200]
