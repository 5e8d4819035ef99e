"""The newest key is not visible in its own step: a token that is read with a cache does not see itself.

Missed because: the prompt is right, and a token's own key is one of many.

Training: none; every generated token is answered by its past alone.

Ask: four keys are cached and one token is read: over how many keys does its row of weights sum to one?

Fix: write the new keys and values into the cache first, then attend over all of it.

Seen in: https://github.com/harvard-edge/cs249r_book/pull/1953
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from softlookup.auditing.planting import replaced


@contextmanager
def plant(model: nn.Module) -> Iterator[None]:
    """Hide the newest key from a token that is read alone."""
    with ExitStack() as planted:
        for number, layer in enumerate(model.model.layers):  # type: ignore[union-attr, arg-type]
            planted.enter_context(replaced(layer.self_attn, _without_newest(number)))
        yield


def _without_newest(number: int) -> Any:
    def attended(right: Any, hidden_states: torch.Tensor, **named: Any) -> Any:
        cache = named.get("cache", named.get("past_key_values"))
        earlier = 0 if cache is None else cache.get_seq_length(number)
        if earlier and hidden_states.shape[1] == 1:
            mask = torch.zeros(1, 1, 1, earlier + 1, device=hidden_states.device)
            mask[..., -1] = torch.finfo(hidden_states.dtype).min
            named["attention_mask"] = mask
        return right(hidden_states, **named)

    return attended
