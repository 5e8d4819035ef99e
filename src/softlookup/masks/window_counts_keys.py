"""Causal sliding window of ``window`` keys, the query's own included.

    q_len=5 k_len=5 window=2 corner=top-left
    1 . . . .
    1 1 . . .
    . 1 1 . .
    . . 1 1 .
    . . . 1 1

    q_len=2 k_len=5 window=3 corner=bottom-right
    . 1 1 1 .
    . . 1 1 1

Used by: transformers' sliding_window (Mistral, Gemma), where ``key > query - window``.
"""

from typing import Any

from softlookup.masks.accept import corner_name, whole_number
from softlookup.masks.predicate import Index, own_key, query_position
from softlookup.terms import Corner


def parameters(*, window: int, corner: Corner = "top-left") -> dict[str, Any]:
    """``window``: keys that a query sees, at least 1."""
    return {"window": whole_number("window", window, at_least=1), "corner": corner_name(corner)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, window: int, corner: Corner) -> Index:
    """Say whether key j is the query's own or one of the window - 1 before it."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return (j <= here) & (here - j < window)


def span(i: Index, *, q_len: int, k_len: int, window: int, corner: Corner) -> tuple[Index, Index]:
    """The last ``window`` keys up to its own."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return here - window + 1, here + 1


def always_sees(*, q_len: int, k_len: int, window: int, corner: Corner) -> frozenset[str]:
    """A query sees itself."""
    return own_key(q_len=q_len, k_len=k_len, corner=corner)
