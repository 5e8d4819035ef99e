"""Who may look at whom: one file per visibility rule, and the algebra (& | ~).

A mask is built by a function, combined with ``&``, ``|`` and ``~``, and made dense last:

>>> from softlookup.masks import causal, padding
>>> mask = causal() & padding([3, 2])
>>> mask.explain(1, 2)
'key 2 is hidden from query 1 of sample 0: causal'
>>> mask.dense(3, 3).shape
torch.Size([2, 1, 3, 3])

The rules themselves, each with its drawing, are the files of this folder: see ``predicate`` for how one is
written.
"""

from softlookup.masks.algebra import AllOf, AnyOf, Given, Mask, Opposite
from softlookup.masks.bias import Bias
from softlookup.masks.builders import (
    alibi,
    causal,
    chunked,
    dilated,
    documents,
    make_causal_allowed_mask,
    make_padding_allowed_mask,
    packed,
    padding,
    padding_of,
    prefix_lm,
    sliding_window,
)
from softlookup.masks.discover import rule_file, rule_names
from softlookup.masks.rule import Rule, visibility

__all__ = [
    "AllOf",
    "AnyOf",
    "Bias",
    "Given",
    "Mask",
    "Opposite",
    "Rule",
    "alibi",
    "causal",
    "chunked",
    "dilated",
    "documents",
    "make_causal_allowed_mask",
    "make_padding_allowed_mask",
    "packed",
    "padding",
    "padding_of",
    "prefix_lm",
    "rule_file",
    "rule_names",
    "sliding_window",
    "visibility",
]
