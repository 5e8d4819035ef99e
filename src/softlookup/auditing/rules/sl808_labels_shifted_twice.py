"""The target of each answer is two tokens ahead: the data shifts the labels, and the model shifts them again.

Missed because: the loss falls, to a higher value; each of the two shifts is right by itself.

Training: the model learns to skip a token, and generated text reads as if every other word were missing.

Ask: who shifts the labels: the data, the model, or the loss?

Fix: shift in one place only: models that take ``labels`` expect the unshifted token ids.

Seen in: https://github.com/huggingface/transformers/issues/47394,
    https://github.com/huggingface/transformers/pull/37830
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn
from torch.nn.functional import pad

from softlookup.auditing.planting import replaced


def plant(model: nn.Module) -> AbstractContextManager[object]:
    """Shift the labels before the model does."""

    def twice(right: Any, *arguments: Any, labels: torch.Tensor | None = None, **named: Any) -> Any:
        labels = None if labels is None else pad(labels[:, 1:], (0, 1), value=-100)
        return right(*arguments, labels=labels, **named)

    return replaced(model, twice)
