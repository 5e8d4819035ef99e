"""Causal, counted from the first key: query i sees keys 0 to i.

    q_len=2 k_len=5
    1 . . . .
    1 1 . . .

    q_len=5 k_len=2
    1 .
    1 1
    1 1
    1 1
    1 1

Used by: torch scaled_dot_product_attention(is_causal=True), torch causal_upper_left, flash-attention before
2.1.
"""

from softlookup.masks.predicate import Index, own_key


def allowed(i: Index, j: Index, *, q_len: int, k_len: int) -> Index:
    """Say whether key j is not after query i."""
    return j <= i


def span(i: Index, *, q_len: int, k_len: int) -> tuple[Index, Index]:
    """All keys up to the query's position."""
    return 0, i + 1


def always_sees(*, q_len: int, k_len: int) -> frozenset[str]:
    """Key 0 is before everybody."""
    return frozenset({"first key"}) | own_key(q_len=q_len, k_len=k_len, corner="top-left")
