"""Chunked causal: the sequence is cut every ``chunk_size``; a query sees its chunk up to itself.

    q_len=5 k_len=5 chunk_size=3 corner=top-left
    1 . . . .
    1 1 . . .
    1 1 1 . .
    . . . 1 .
    . . . 1 1

    q_len=2 k_len=5 chunk_size=3 corner=bottom-right
    . . . 1 .
    . . . 1 1

The first query of a chunk sees only itself: unlike a sliding window, what is visible jumps at every cut.

Used by: Llama 4's local layers (attention_chunk_size in transformers).
"""

from typing import Any

from softlookup.masks.accept import corner_name, whole_number
from softlookup.masks.predicate import Index, own_key, query_position
from softlookup.terms import Corner


def parameters(*, chunk_size: int, corner: Corner = "top-left") -> dict[str, Any]:
    """``chunk_size``: positions in one chunk, at least 1."""
    return {"chunk_size": whole_number("chunk_size", chunk_size, at_least=1), "corner": corner_name(corner)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> Index:
    """Say whether key j lies in the query's chunk and not after it."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return (here // chunk_size == j // chunk_size) & (j <= here)


def span(i: Index, *, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> tuple[Index, Index]:
    """From the start of its chunk to itself."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    start = here // chunk_size * chunk_size
    return start, here + 1


def always_sees(*, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> frozenset[str]:
    """A query sees itself."""
    return own_key(q_len=q_len, k_len=k_len, corner=corner)
