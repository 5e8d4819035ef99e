"""Padded targets enter the loss.

Missed because: the loss falls all the faster: padding is easy to predict.

Training: the model learns to answer padding; batches with short samples count less, and losses depend on the
    batch.

Ask: two samples of 3 and of 10 tokens in one batch: how many terms has the mean?

Fix: give padded labels -100, the index that cross_entropy ignores, and divide by the number of the others.

Seen in: https://github.com/QwenLM/Qwen/issues/719
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from softlookup.auditing.planting import replaced


def plant(model: nn.Module) -> AbstractContextManager[object]:
    """Take labels that do not count for token 0."""

    def counted(right: Any, *arguments: Any, labels: torch.Tensor | None = None, **named: Any) -> Any:
        labels = None if labels is None else labels.clamp_min(0)
        return right(*arguments, labels=labels, **named)

    return replaced(model, counted)
