"""The ways in which a transformers model can compute attention, chosen for a block and put back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from softlookup.auditing.comparing import Side, one_forward
from softlookup.auditing.padding import streams
from softlookup.auditing.question import Answer, Question
from softlookup.auditing.subject import Subject


def implementation(subject: Subject) -> str:
    """Return which implementation of transformers a model uses, "" for other models."""
    return str(getattr(subject.config, "_attn_implementation", "") or "")


@contextmanager
def attention_by(subject: Subject, name: str) -> Iterator[None]:
    """Let a transformers model use another implementation while the block runs.

    Raises: whatever the model raises where it has no such implementation.
    """
    kept = [(config, config._attn_implementation_internal) for config in _configs(subject.model)]
    try:
        subject.model.set_attn_implementation(name)  # type: ignore[operator]
        yield
    finally:
        for config, before in kept:
            config._attn_implementation_internal = before


@contextmanager
def eager_attention(subject: Subject) -> Iterator[None]:
    """Use the implementation that computes weights, where there are several; else change nothing."""
    if implementation(subject) in {"", "eager"}:
        yield
        return
    with attention_by(subject, "eager"):
        yield


def plain_sides(subject: Subject) -> Iterator[tuple[str, Question, Side]]:
    """Yield what every path is asked, in words: without padding, and with padding where there can be some."""
    question = subject.question()
    yield "without padding", question, one_forward(subject, question)
    for padded in streams(subject):
        whose = "of the source" if padded.stream == "source" else "of what is read"
        yield f"with padding on the right {whose}", padded.question(), padded.side()


def asked_by(subject: Subject, question: Question, name: str) -> Callable[[], list[Answer]]:
    """Return what asks a question with another implementation of transformers."""

    def ask() -> list[Answer]:
        with attention_by(subject, name):
            return [subject.ask(question)]

    return ask


def asked_with_gradients(subject: Subject, question: Question) -> Callable[[], list[Answer]]:
    """Return what asks a question with gradients switched on."""
    return lambda: [subject.ask_with_graph(question)]


def asked_compiled(subject: Subject, question: Question, compiled: nn.Module) -> Callable[[], list[Answer]]:
    """Return what asks a question of the compiled model."""

    def ask() -> list[Answer]:
        with torch.no_grad():
            return [subject.call.ask(compiled, question)]

    return ask


def _configs(model: Any) -> list[Any]:
    """Return every config of a model, those inside others as well, each once."""
    found: dict[int, Any] = {}
    for module in model.modules():
        waiting = [getattr(module, "config", None)]
        while waiting:
            config = waiting.pop()
            if hasattr(config, "_attn_implementation_internal") and id(config) not in found:
                found[id(config)] = config
                waiting += [getattr(config, name, None) for name in getattr(config, "sub_configs", ())]
    return list(found.values())
