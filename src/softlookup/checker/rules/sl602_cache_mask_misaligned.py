"""With a cache the causal mask does not fit: new tokens that are given together see each other both ways.

Missed because: one new token at a time needs no mask, and without a cache the mask is there.

Training: none; a prompt that is read with a cache, or in pieces, is read with a look at its own future.

Ask: three new tokens meet a cache of five: which of the eight keys may the first new token see?

Fix: hide by position, with and without a cache: key j for query i when j > i + number of earlier tokens.

Seen in: https://github.com/Mikyx-1/TinyLLM/pull/18, https://github.com/rasbt/LLMs-from-scratch/pull/697
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("skipped with a cache", "visible", "hide", "normalize")


#: The first piece may go another way than those that find something in the cache.
VARIANTS = ("with a cache", "with a cache that holds something")


def visible(case: Case, variant: str) -> Tensor | None:
    elsewhere = case.past is None or ("something" in variant and case.past == 0)
    return all_rules(case if elsewhere else case.but(causal=None))
