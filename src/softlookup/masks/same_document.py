"""Packed sequences, from document ids: a query sees the keys of its own document.

    q_len=5 k_len=5 document_ids=[0,0,0,1,1] corner=top-left
    1 1 1 . .
    1 1 1 . .
    1 1 1 . .
    . . . 1 1
    . . . 1 1

    q_len=2 k_len=5 document_ids=[4,4,9,4,4] corner=bottom-right
    1 1 . 1 1
    1 1 . 1 1

Only equality counts, not the order of the ids. It says nothing about order within a document: add ``&
causal()``. Keys are the whole packed sequence; with fewer queries (a key/value cache) ``corner`` says where
they stand in it.

Used by: attention-gym's document mask, torchtune's packed data sets, every trainer that packs several texts
in a row.
"""

from typing import Any

from softlookup.masks.accept import corner_name, ids
from softlookup.masks.predicate import Index, at, own_key, query_position
from softlookup.masks.runs import runs_like
from softlookup.terms import Corner, SoftlookupError

PER_TOKEN = ("document_ids",)


def parameters(*, document_ids: Any, corner: Corner = "top-left") -> dict[str, Any]:
    """``document_ids: [B, T_k]``: which document each key belongs to."""
    return {"document_ids": ids("document_ids", document_ids), "corner": corner_name(corner)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, document_ids: Any, corner: Corner) -> Index:
    """Say whether query and key belong to one document."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return at(document_ids, here) == at(document_ids, j)


def intervals(
    i: Index, *, q_len: int, k_len: int, most: int, document_ids: Any, corner: Corner
) -> tuple[Index, Index] | None:
    """The runs of the query's document: one, unless its id comes back after another's."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    found = runs_like(document_ids, most)
    return None if found is None else (at(found[0], here), at(found[1], here))


def fixed_k_len(*, document_ids: Any, corner: Corner) -> int:
    """There is one id for each key."""
    return int(document_ids.shape[-1])


def check_lengths(*, q_len: int, k_len: int, document_ids: Any, corner: Corner) -> None:
    """Every query has a document too."""
    if q_len > k_len:
        raise SoftlookupError(
            "masks: documents are packed in one sequence, but some queries stand outside it.",
            expected=f"at most {k_len} queries, one for each document id",
            got=f"T_q = {q_len}",
            sizes={"T_q": q_len, "T_k": k_len},
        )


def always_sees(*, q_len: int, k_len: int, document_ids: Any, corner: Corner) -> frozenset[str]:
    """A token is in its own document."""
    return own_key(q_len=q_len, k_len=k_len, corner=corner)
