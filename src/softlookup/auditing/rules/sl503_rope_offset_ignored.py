"""With a cache the new token is rotated as if it stood at position 0, or at any other place than its own.

Missed because: a forward over the whole text is right, and the first tokens after the prompt still read well.

Training: none; generated text drifts, the more the longer the prompt.

Ask: five tokens are in the cache and one more is read: at which position is it rotated?

Fix: count from the cache: positions = number of cached tokens + arange(T_q), the same for every layer.

Seen in: https://github.com/RobertCsordas/moeut/pull/6,
https://github.com/fla-org/flash-linear-attention/issues/766
"""

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import nn

from softlookup.auditing.planting import replaced


def plant(model: nn.Module) -> AbstractContextManager[object]:
    """Rotate every token by its place in this call."""

    def rotated(right: Any, x: torch.Tensor, position_ids: torch.Tensor) -> Any:
        return right(x, torch.arange(x.shape[1], device=x.device)[None])

    return replaced(model.model.rotary_emb, rotated)  # type: ignore[union-attr, arg-type]
