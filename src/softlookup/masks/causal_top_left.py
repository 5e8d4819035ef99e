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

Used by: torch scaled_dot_product_attention(is_causal=True), torch causal_upper_left, flash-attention before 2.1.
"""

from softlookup.masks.predicate import Index


def allowed(i: Index, j: Index, *, q_len: int, k_len: int) -> Index:
    return j <= i
