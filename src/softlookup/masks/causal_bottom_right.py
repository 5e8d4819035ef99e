"""Causal, counted from the last key: the newest query sees every key.

    q_len=2 k_len=5
    1 1 1 1 .
    1 1 1 1 1

    q_len=5 k_len=2
    . .
    . .
    . .
    1 .
    1 1

Used by: flash-attention since 2.1, torch causal_lower_right, decoding with a key/value cache.
"""

from softlookup.masks.predicate import Index


def allowed(i: Index, j: Index, *, q_len: int, k_len: int) -> Index:
    return j <= i + (k_len - q_len)
