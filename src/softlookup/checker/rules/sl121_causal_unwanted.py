"""Keys after the query are hidden though nothing asked for it.

Missed because: it runs and leaks nothing; an encoder or cross-attention just becomes weaker.

Training: early positions see almost nothing; in cross-attention the first target sees only the first source.

Ask: who asked for the keys after the query to be hidden?

Fix: pass `is_causal=False` and build the causal mask only where it was asked for.

Seen in: https://github.com/huggingface/transformers/issues/48172,
https://github.com/NVIDIA/TransformerEngine/issues/629
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case, Corner

LINE = ("unwanted", "visible", "hide")
VARIANTS: tuple[Corner, ...] = ("top-left", "bottom-right")


def visible(case: Case, variant: Corner) -> Tensor | None:
    asked = case.causal is not None or (case.window is not None and not case.window_ahead)
    return all_rules(case if asked else case.but(causal=variant))
