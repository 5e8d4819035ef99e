"""What several public reports ask of a model: whether it misbehaves as they say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from planted_models import PAD, VOCABULARY, ids
from torch import Tensor
from torch.nn import functional

T = 9


def apart(a: Tensor, b: Tensor) -> bool:
    """Whether two answers differ by more than rounding; NaN differs from a number."""
    return not torch.allclose(a, b, atol=1e-4, rtol=1e-4)


def logits(model: Any, *inputs: Tensor, **named: Any) -> Tensor:
    with torch.no_grad():
        returned = model(*inputs, **named)
    return returned["logits"] if isinstance(returned, dict) else getattr(returned, "logits", returned)


def sees_future(model: Any) -> bool:
    """The last token is replaced: no earlier answer may move."""
    text = ids(2, T)
    other = text.clone()
    other[:, -1] = (other[:, -1] - 2 + 1) % (VOCABULARY - 2) + 2
    return apart(logits(model, text)[:, :-1], logits(model, other)[:, :-1])


def padding_moves_text(model: Any, left: bool = False) -> bool:
    """Three tokens of padding are put before or behind the text: its answers may not move."""
    text, pads = ids(2, T), torch.full((2, 3), PAD)
    padded = torch.cat([pads, text] if left else [text, pads], dim=1)
    real = torch.ones_like(padded)
    real[:, slice(3) if left else slice(T, None)] = 0
    answer = logits(model, padded, attention_mask=real)
    return apart(answer[:, 3:] if left else answer[:, :T], logits(model, text))


def steps_differ(model: Any) -> bool:
    """The text is read token by token with a cache: the answers are those of one forward."""
    text, cache, found = ids(2, T), None, []
    with torch.no_grad():
        for token in text.split(1, dim=1):
            answer = model(token, cache=cache, use_cache=True)
            found.append(answer["logits"])
            cache = answer["cache"]
    return apart(torch.cat(found, dim=1), logits(model, text))


def first_document_moves_second(model: Any, ones: bool = False) -> bool:
    """Two documents are packed and the first one is replaced: the answers in the second one may not move."""
    text, other = ids(1, T), ids(1, T)
    other[:, :4] = ids(1, 4, seed=9)
    given: dict[str, Any] = {"position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]])}
    if ones:
        given["attention_mask"] = torch.ones(1, T, dtype=torch.long)
    if hasattr(model, "generate"):
        given["use_cache"] = False  # a model of transformers makes one, and then reads no packing
    return apart(logits(model, text, **given)[:, 4:], logits(model, other, **given)[:, 4:])


def labels_are_shifted_by(steps: int) -> Callable[[Any], bool]:
    """The loss is what comparing each answer with the token ``steps`` later gives."""

    def shows(model: Any) -> bool:
        text = ids(3, T)
        with torch.no_grad():
            answer = model(text, labels=text)
        found, loss = (answer["logits"], answer["loss"])
        expected = functional.cross_entropy(
            found[:, : T - steps].reshape(-1, found.shape[-1]), text[:, steps:].reshape(-1)
        )
        return bool(torch.isclose(loss, expected, rtol=1e-5))

    return shows
