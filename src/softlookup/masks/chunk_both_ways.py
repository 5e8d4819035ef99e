"""Chunks that see only themselves, both ways: the sequence is cut every ``chunk_size`` positions.

    q_len=5 k_len=5 chunk_size=2 corner=top-left
    1 1 . . .
    1 1 . . .
    . . 1 1 .
    . . 1 1 .
    . . . . 1

    q_len=2 k_len=5 chunk_size=2 corner=bottom-right
    . . 1 1 .
    . . . . 1

Used by: blockwise local attention in encoders, window partitions of one axis (Swin without the shift).
"""

from typing import Any

from softlookup.masks.accept import corner_name, whole_number
from softlookup.masks.predicate import Index, own_key, query_position
from softlookup.terms import Corner


def parameters(*, chunk_size: int, corner: Corner = "top-left") -> dict[str, Any]:
    """``chunk_size``: positions in one chunk, at least 1."""
    return {"chunk_size": whole_number("chunk_size", chunk_size, at_least=1), "corner": corner_name(corner)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> Index:
    """Say whether query and key lie in the same chunk."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return here // chunk_size == j // chunk_size


def span(i: Index, *, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> tuple[Index, Index]:
    """From the start of its chunk to the end."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    start = here // chunk_size * chunk_size
    return start, start + chunk_size


def always_sees(*, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> frozenset[str]:
    """A query sees itself."""
    return own_key(q_len=q_len, k_len=k_len, corner=corner)
