"""What a model is asked, and what it answers, in words that do not depend on how it spells its arguments."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Question:
    """One forward of a model.

    tokens: [B, T] ids, or [B, T, d_model] numbers: what is read, or the target of an encoder-decoder
    real: bool [B, T_all], True = a real token, False = padding; of the cached tokens as well
    positions: [B, T];  source, source_real: what the encoder of an encoder-decoder reads
    labels: [B, T];  cache: what an earlier answer returned;  keep_cache: whether a cache is asked for
    tokens_from_labels: whether an encoder-decoder makes its target from the labels
    weights: whether attention weights are asked for
    """

    tokens: Tensor
    real: Tensor | None = None
    positions: Tensor | None = None
    source: Tensor | None = None
    source_real: Tensor | None = None
    labels: Tensor | None = None
    cache: Any = None
    keep_cache: bool = False
    tokens_from_labels: bool = False
    weights: bool = False
    more: dict[str, Any] = field(default_factory=dict)  # arguments of this model, by its own names

    def but(self, **changes: Any) -> Question:
        """Return the same question with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True, eq=False)
class Answer:
    """What a forward returned.

    output: [B, T, d]: logits or hidden states of each token, or [B, d] where a sample is answered as a whole
    loss: [] or None;  cache: keys and values for the next forward, or None
    """

    output: Tensor
    loss: Tensor | None = None
    cache: Any = None
