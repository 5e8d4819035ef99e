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

from softlookup.masks.predicate import Index, own_key


def allowed(i: Index, j: Index, *, q_len: int, k_len: int) -> Index:
    """Say whether key j is not after query i, when the last query stands at the last key."""
    return j <= i + (k_len - q_len)


def span(i: Index, *, q_len: int, k_len: int) -> tuple[Index, Index]:
    """All keys up to the query's position among them."""
    return 0, i + (k_len - q_len) + 1


def always_sees(*, q_len: int, k_len: int) -> frozenset[str]:
    """With more queries than keys the first queries stand before key 0 and see nothing."""
    if q_len > k_len:
        return frozenset()
    return frozenset({"first key"}) | own_key(q_len=q_len, k_len=k_len, corner="bottom-right")
