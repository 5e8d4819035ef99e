"""Asking for attention weights changes what the model answers.

Missed because: a forward with weights is made to look at them, and nobody compares its answers.

Training: none; what is seen in the weights is not what the model does.

Ask: which code runs only when weights are asked for, and what does it do to mask, scale and dropout?

Fix: let one path compute both, or compute the weights beside the answer from the same queries, keys and mask.

Seen in: none of the collected reports as such; by a manual path beside a fused one in
https://github.com/karpathy/nanoGPT/issues/331
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from softlookup.auditing.planting import replaced


@contextmanager
def plant(model: nn.Module) -> Iterator[None]:
    """Let the attention of the last layer give more once weights are asked for."""
    asked = False

    def forward(right: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal asked
        asked = bool(named.get("output_attentions"))
        return right(*arguments, **named)

    def attended(right: Any, *arguments: Any, **named: Any) -> Any:
        output, *rest = right(*arguments, **named)
        return (output * 1.1 if asked else output, *rest)

    inner: Any = model
    with replaced(model, forward), replaced(inner.model.layers[-1].self_attn, attended):
        yield
