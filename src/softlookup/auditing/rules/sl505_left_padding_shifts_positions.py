"""Padding on the left changes what the real tokens are answered: positions are counted from the first column.

Missed because: one prompt alone, and prompts of the same length, are right; only shorter ones in a batch
    suffer.

Training: none with padding on the right; batched generation and evaluation give worse answers than single
    ones.

Ask: three pads stand before the first real token: which position does it get?

Fix: derive positions from the mask: (attention_mask.cumsum(-1) - 1).clamp(min=0), and use those that are
    given.

Seen in: https://github.com/unslothai/unsloth/pull/3795, https://github.com/ndif-team/nnsight/pull/673
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from softlookup.auditing.planting import replaced


@contextmanager
def plant(model: nn.Module) -> Iterator[None]:
    """Add positions that are counted from the first column, whatever position ids say."""
    earlier = 0

    def counted(right: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal earlier
        cache = named.get("cache", named.get("past_key_values"))
        earlier = 0 if cache is None else cache.get_seq_length()
        return right(*arguments, **named)

    def embedded(right: Any, ids: torch.Tensor) -> torch.Tensor:
        tokens: torch.Tensor = right(ids)
        places = earlier + torch.arange(ids.shape[1], device=ids.device)
        features = torch.arange(tokens.shape[-1], device=ids.device)
        return tokens + 0.02 * torch.sin(places[:, None] / (1 + features))

    inner = model.model
    with replaced(inner, counted), replaced(inner.embed_tokens, embedded):  # type: ignore[arg-type, union-attr]
        yield
