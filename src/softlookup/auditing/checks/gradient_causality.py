"""A loss at one token sends no gradient to later tokens.

The answer at the middle token is summed with fixed weights, and its gradient is taken with respect to the
embeddings.
"""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from softlookup.audited import Found, Noted
from softlookup.auditing.findings import found, rounded
from softlookup.auditing.subject import Subject
from softlookup.live.layer_outputs import recorded_layers

CODES = ("SL805",)
AFTER = ("causality",)


def applies(subject: Subject) -> str:
    """Ask causal models through which gradients flow."""
    if not subject.causal or not subject.by_token:
        return "the model does not promise to be causal; say so with causal=True"
    return "" if _gradient(subject) is not None else "no gradient reaches its embeddings"


def run(subject: Subject) -> Iterator[Found | Noted]:
    """Look at the gradient of the tokens after the middle one."""
    middle = subject.length // 2
    gradient = _gradient(subject)
    assert gradient is not None
    largest, later = float(gradient.abs().max()), float(gradient[:, middle + 1 :].abs().max())
    if later > subject.tolerance * largest or later != later:
        words = f"the answer at token {middle} does not depend on later tokens, and has a gradient for them"
        yield found("SL805", words, None, {"later gradient": rounded(later), "largest": rounded(largest)})


def _gradient(subject: Subject) -> Tensor | None:
    """Return the gradient of the middle answer for the embeddings, [B, T, d]."""
    return subject.remembered("gradient", lambda: _measured(subject, subject.length // 2))


def _measured(subject: Subject, at: int) -> Tensor | None:
    question = subject.question()
    if question.tokens.is_floating_point():
        numbers = question.tokens.detach().requires_grad_()
        output = subject.ask_with_graph(question.but(tokens=numbers)).output
        return _of(output, at, numbers)
    tables = {path for path, module in subject.model.named_modules() if isinstance(module, nn.Embedding)}
    with recorded_layers(subject.model, keep_graph=True) as seen:
        output = subject.ask_with_graph(question).output
    for call in reversed(seen.calls):  # the target is embedded after the source
        embedded = call.output
        if call.path in tables and embedded is not None and embedded.shape[:2] == question.tokens.shape:
            return _of(output, at, embedded)
    return None


def _of(output: Tensor, at: int, numbers: Tensor) -> Tensor | None:
    if not output.requires_grad or not numbers.requires_grad:
        return None
    draw = torch.Generator().manual_seed(3)
    weights = torch.randn(output.shape[-1], generator=draw).to(output)
    (gradient,) = torch.autograd.grad((output[:, at] * weights).sum(), numbers, allow_unused=True)
    return gradient
