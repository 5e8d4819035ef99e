"""A mask in which True may be looked at is handed to `nn.MultiheadAttention`, where True is hidden.

Missed because: the shapes fit, rows still sum to one, and `F.scaled_dot_product_attention` reads the same
mask the other way round.

Fix: negate it where it is handed over: `attn_mask=~allowed_mask`.

Seen in: https://github.com/pytorch/pytorch/pull/170415, https://github.com/huggingface/transformers/pull/38094
"""

import re
from collections.abc import Iterator

from softlookup.lint.hit import Hit, shown
from softlookup.lint.mask_meaning import meaning
from softlookup.lint.source import Source
from softlookup.lint.torch_modules import masks_given_to_modules

WORTH = re.compile(r"MultiheadAttention|Transformer(En|De)coder|nn\.Transformer|multi_head_attention_forward")


def find(source: Source) -> Iterator[Hit]:
    """Yield the hits of a file."""
    for module, parameter, mask in masks_given_to_modules(source):
        found = meaning(source, mask)
        if found is None or found.kind != "allowed" or not found.boolean:
            continue
        yield Hit(
            mask,
            f"`{parameter}` of {module} hides where True, but in `{shown(mask)}` True may be looked at: "
            f"{found.because}",
            f"{parameter}=~{shown(mask)}, or build the mask the other way round",
        )
