"""Causal dilated window: ``window`` keys, the query's own included, each ``step`` before the next.

    q_len=6 k_len=6 window=2 step=2 corner=top-left
    1 . . . . .
    . 1 . . . .
    1 . 1 . . .
    . 1 . 1 . .
    . . 1 . 1 .
    . . . 1 . 1

    q_len=2 k_len=7 window=3 step=3 corner=bottom-right
    . . 1 . . 1 .
    1 . . 1 . . 1

With step=1 it is the plain causal window.

Used by: Longformer's dilated sliding window, LongNet, NATTEN's dilation.
"""

from typing import Any

from softlookup.masks.accept import corner_name, whole_number
from softlookup.masks.predicate import Index, own_key, query_position
from softlookup.terms import Corner


def parameters(*, window: int, step: int, corner: Corner = "top-left") -> dict[str, Any]:
    """``window``: keys that a query sees, at least 1; ``step``: distance from one to the next, at least 1."""
    return {
        "window": whole_number("window", window, at_least=1),
        "step": whole_number("step", step, at_least=1),
        "corner": corner_name(corner),
    }


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, window: int, step: int, corner: Corner) -> Index:
    """Say whether key j is 0, 1, ... window - 1 steps before the query."""
    back = query_position(i, q_len=q_len, k_len=k_len, corner=corner) - j
    return (back >= 0) & (back % step == 0) & (back < window * step)


def always_sees(*, q_len: int, k_len: int, window: int, step: int, corner: Corner) -> frozenset[str]:
    """A query sees itself."""
    return own_key(q_len=q_len, k_len=k_len, corner=corner)
