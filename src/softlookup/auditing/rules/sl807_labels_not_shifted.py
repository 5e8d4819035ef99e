"""The target of each answer is the token that was just read, not the next one.

Missed because: the loss falls to zero, which looks like success.

Training: the model learns to repeat what it reads, and generates the last token over and over.

Ask: the loss compares the answer at position 4 with the label at which position?

Fix: compare logits[:, :-1] with labels[:, 1:], once: in the model or in the data, not in neither.

Seen in: https://github.com/macrocosm-os/pretraining/pull/64
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from softlookup.auditing.planting import replaced


def plant(model: nn.Module) -> AbstractContextManager[object]:
    """Say that the labels were shifted before."""

    def unshifted(right: Any, *arguments: Any, labels: torch.Tensor | None = None, **named: Any) -> Any:
        if labels is not None:
            named["shift_labels"] = labels
        return right(*arguments, labels=labels, **named)

    return replaced(model, unshifted)
