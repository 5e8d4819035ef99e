"""A sliding window is built in: a query sees its last few keys, itself included, or as many on both sides.

Seen in: https://github.com/huggingface/transformers/pull/26792
"""

from softlookup.terms import Case

HINTS = ("window", "local", "sliding", "band", "span")
VARIANTS = tuple((keys, ahead) for keys in (2, 3, 4, 5, 6, 8, 16) for ahead in (False, True))


def assume(case: Case, variant: tuple[int, bool]) -> Case:
    keys, ahead = variant
    if case.window is not None or (case.causal is None and not ahead):
        return case  # looking back only is causal, and that nobody asked for
    return case.but(window=keys, window_ahead=ahead)
