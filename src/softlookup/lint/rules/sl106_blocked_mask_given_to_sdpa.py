"""A mask in which True is hidden is handed to `F.scaled_dot_product_attention`, where True may be looked at.

Missed because: the masks of `nn.MultiheadAttention` mean the opposite, and the same tensor fits both.

Fix: negate it where it is handed over: `attn_mask=~blocked_mask`.

Seen in: https://github.com/rasbt/LLMs-from-scratch/issues/1061, https://github.com/pytorch/pytorch/pull/170415
"""

import re
from collections.abc import Iterator

from softlookup.lint.hit import Hit, shown
from softlookup.lint.mask_meaning import meaning
from softlookup.lint.source import Source, argument

WORTH = re.compile(r"scaled_dot_product_attention")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for call in source.calls:
        if source.called(call) != "scaled_dot_product_attention":
            continue
        mask = argument(call, "attn_mask", 3)
        found = meaning(source, mask) if mask is not None else None
        if mask is None or found is None or found.kind != "blocked" or not found.boolean:
            continue
        yield Hit(
            mask,
            f"`attn_mask` shows where True, but in `{shown(mask)}` True is hidden: {found.because}",
            f"attn_mask=~{shown(mask)}, or build the mask the other way round",
        )
