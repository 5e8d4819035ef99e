"""For tests of your own attention: compare an output with the right one, and draw problems for it.

``assert_attention_close`` needs nothing but torch; the strategies need Hypothesis.
"""

from softlookup.checker.cases import Sizes
from softlookup.testing.closeness import assert_attention_close, assert_solves
from softlookup.testing.strategies import (
    allowed_masks,
    attention_problems,
    in_layout,
    layouts,
    qkv,
    shapes,
)
from softlookup.testing.visibility import (
    assert_allowed,
    assert_causal,
    assert_hidden,
    assert_hides_padding,
    assert_row,
)

__all__ = [
    "Sizes",
    "allowed_masks",
    "assert_allowed",
    "assert_attention_close",
    "assert_causal",
    "assert_hidden",
    "assert_hides_padding",
    "assert_row",
    "assert_solves",
    "attention_problems",
    "in_layout",
    "layouts",
    "qkv",
    "shapes",
]
