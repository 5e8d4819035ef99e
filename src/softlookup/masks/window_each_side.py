"""Symmetric sliding window: ``window`` keys before and as many after, 2 * window + 1 with the query's own.

    q_len=5 k_len=5 window=1 corner=top-left
    1 1 . . .
    1 1 1 . .
    . 1 1 1 .
    . . 1 1 1
    . . . 1 1

    q_len=2 k_len=5 window=1 corner=bottom-right
    . . 1 1 1
    . . . 1 1

Used by: flash-attention's window_size=(window, window); encoders such as Longformer and ModernBERT, whose
configured number is the whole width: pass half of it.
"""

from typing import Any

from softlookup.masks.accept import corner_name, whole_number
from softlookup.masks.predicate import Index, own_key, query_position
from softlookup.terms import Corner


def parameters(*, window: int, corner: Corner = "top-left") -> dict[str, Any]:
    """``window``: keys that a query sees on each side of its own, 0 or more."""
    return {"window": whole_number("window", window, at_least=0), "corner": corner_name(corner)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, window: int, corner: Corner) -> Index:
    """Say whether key j is at most ``window`` away."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return (here - j <= window) & (j - here <= window)


def span(i: Index, *, q_len: int, k_len: int, window: int, corner: Corner) -> tuple[Index, Index]:
    """``window`` keys before its own, as many after."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return here - window, here + window + 1


def always_sees(*, q_len: int, k_len: int, window: int, corner: Corner) -> frozenset[str]:
    """A query sees itself."""
    return own_key(q_len=q_len, k_len=k_len, corner=corner)
