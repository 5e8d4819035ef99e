"""Dropout that was asked for drops something in training.

Only the attention of one layer of each kind is put into training mode, and the same input is asked twice: its
output has to differ. The whole model in training mode has to give two outputs as well.
"""

import re
from collections.abc import Iterator

import torch
from torch import nn

from softlookup.audited import Found, Noted
from softlookup.auditing.findings import found
from softlookup.auditing.subject import Subject
from softlookup.auditing.untouched import training_flags_kept
from softlookup.live.layer_outputs import recorded_layers

CODES = ("SL802",)
_RATES = (
    "attention_dropout",
    "attn_dropout",
    "attn_pdrop",
    "dropout",
    "dropout_p",
    "dropout_prob",
    "dropout_rate",
)
_IN_CONFIG = ("attention_dropout", "attn_pdrop", "attention_probs_dropout_prob", "attention_dropout_prob")
_OTHER = ("resid", "hidden", "out", "proj")  # dropouts inside attention that are not those of its weights


def applies(subject: Subject) -> str:
    """Ask models with a dropout above 0."""
    if _attention_layers(subject) or _any_dropout(subject):
        return ""
    return "no dropout is asked for"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Switch the dropout of attention on, one layer of each kind after the other, then all of it."""
    for path, rate in _attention_layers(subject).items():
        with training_flags_kept(subject.model):
            _train_attention_only(subject.attention_modules[path])
            first, second = _output_of(subject, path), _output_of(subject, path)
        if first is not None and second is not None and torch.equal(first, second):
            words = f"{path} has a dropout of {rate:g} and gives the same output twice in training mode"
            yield found("SL802", words, path, {"rate": rate})
    if _any_dropout(subject):
        with training_flags_kept(subject.model):
            subject.model.train()
            one, other = (_output_of(subject, "") for _ in range(2))
        if one is not None and other is not None and torch.equal(one, other):
            yield found("SL802", "the model gives the same output twice in training mode", "")


def _attention_layers(subject: Subject) -> dict[str, float]:
    """Return one attention module of each kind whose dropout is above 0, with the rate."""
    asked = max((getattr(subject.config, name, None) or 0.0 for name in _IN_CONFIG), default=0.0)
    kinds: dict[str, tuple[str, float]] = {}
    for path, module in subject.attention_modules.items():
        rate = max([asked, *(_rate(getattr(module, name, None)) for name in _RATES)])
        if rate > 0:
            kinds.setdefault(re.sub(r"\d+", "N", path), (path, rate))
    return dict(kinds.values())


def _rate(value: object) -> float:
    if isinstance(value, nn.Dropout):
        return value.p
    return float(value) if isinstance(value, float) and value < 1 else 0.0


def _any_dropout(subject: Subject) -> bool:
    return any(isinstance(it, nn.Dropout) and it.p > 0 for it in subject.model.modules())


def _train_attention_only(module: nn.Module) -> None:
    module.training = True
    for name, child in module.named_modules():
        if isinstance(child, nn.Dropout) and not any(word in name.replace("dropout", "") for word in _OTHER):
            child.training = True


def _output_of(subject: Subject, path: str) -> torch.Tensor | None:
    """Return what one layer gives, with gradients on: without them torch.nn takes a path that never drops."""
    with recorded_layers(subject.model) as seen:
        subject.ask_with_graph(subject.question())
    return next((it.output for it in seen.calls if it.path == path), None)
