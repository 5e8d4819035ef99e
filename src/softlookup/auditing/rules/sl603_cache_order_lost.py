"""After beams or rows are reordered, a row goes on with the past of another one.

Missed because: greedy decoding never reorders, and a batch of one has nothing to mix up.

Training: none; beam search is worse than greedy decoding, and answers of one row leak into another.

Ask: beam 0 is dropped and beam 2 takes its place: whose keys does row 0 see in the next step?

Fix: index keys and values of every layer by the new order, on the axis of the batch, and everything else that
    is kept.

Seen in: none of the collected reports as such; by a cache that is not written at all in
https://github.com/TrenTorch/TrenTorch/pull/192
"""

from contextlib import AbstractContextManager
from typing import Any

from torch import nn

from softlookup.auditing.planting import replaced


def plant(model: nn.Module) -> AbstractContextManager[object]:
    """Hand out a cache that stays in its order."""

    def kept(right: Any, *arguments: Any, **named: Any) -> Any:
        answer = right(*arguments, **named)
        cache = answer.get("cache", answer.get("past_key_values"))
        if cache is not None:
            cache.reorder_cache = lambda order: None
        return answer

    return replaced(model, kept)
