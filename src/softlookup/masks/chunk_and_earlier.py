"""Block-causal: a query sees the whole of its own chunk, and every earlier chunk.

    q_len=5 k_len=5 chunk_size=2 corner=top-left
    1 1 . . .
    1 1 . . .
    1 1 1 1 .
    1 1 1 1 .
    1 1 1 1 1

    q_len=2 k_len=5 chunk_size=2 corner=bottom-right
    1 1 1 1 .
    1 1 1 1 1

With chunk_size=1 it is the plain causal rule.

Used by: video and block-diffusion decoders (one frame or block is written at once), streaming speech
encoders.
"""

from typing import Any

from softlookup.masks.accept import corner_name, whole_number
from softlookup.masks.predicate import Index, own_key, query_position
from softlookup.terms import Corner


def parameters(*, chunk_size: int, corner: Corner = "top-left") -> dict[str, Any]:
    """``chunk_size``: positions in one chunk, at least 1."""
    return {"chunk_size": whole_number("chunk_size", chunk_size, at_least=1), "corner": corner_name(corner)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> Index:
    """Say whether key j lies in the query's chunk or an earlier one."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return j // chunk_size <= here // chunk_size


def span(i: Index, *, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> tuple[Index, Index]:
    """From key 0 to the end of its chunk."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    start = here // chunk_size * chunk_size
    return 0, start + chunk_size


def always_sees(*, q_len: int, k_len: int, chunk_size: int, corner: Corner) -> frozenset[str]:
    """A query sees itself, and no chunk is before the first."""
    first = frozenset({"first key"} if corner == "top-left" or q_len <= k_len else set())
    return first | own_key(q_len=q_len, k_len=k_len, corner=corner)
