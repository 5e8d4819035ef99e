"""Packed sequences, from cumulative lengths: document n is cu_seqlens[n] <= position < cu_seqlens[n + 1].

    q_len=5 k_len=5 cu_seqlens=[0,3,5] corner=top-left
    1 1 1 . .
    1 1 1 . .
    1 1 1 . .
    . . . 1 1
    . . . 1 1

    q_len=2 k_len=5 cu_seqlens=[0,3,4,5] corner=bottom-right
    . . . 1 .
    . . . . 1

It says nothing about order within a document: add ``& causal()``.

Used by: flash-attention's varlen calls (cu_seqlens_q, cu_seqlens_k), nested tensors' offsets.
"""

from itertools import pairwise
from typing import Any

import torch

from softlookup.masks.accept import corner_name, whole_numbers
from softlookup.masks.predicate import Index, at, own_key, query_position
from softlookup.terms import Corner, SoftlookupError


def parameters(*, cu_seqlens: Any, corner: Corner = "top-left") -> dict[str, Any]:
    """``cu_seqlens: [documents + 1]``: rising, from 0 to T_k."""
    bounds = whole_numbers("cu_seqlens", cu_seqlens)
    if len(bounds) < 2 or bounds[0] != 0 or any(a > b for a, b in pairwise(bounds)):
        raise SoftlookupError(
            "masks: `cu_seqlens` are not cumulative lengths.",
            expected="0 first, then the end of every document, never falling, such as [0, 3, 5]",
            got=str(list(bounds)),
            hint="from lengths: [0, *itertools.accumulate(lengths)]",
        )
    return {"cu_seqlens": bounds, "corner": corner_name(corner)}


def _document(position: Index, cu_seqlens: tuple[int, ...]) -> Index:
    return sum(start <= position for start in cu_seqlens)


def allowed(
    i: Index, j: Index, *, q_len: int, k_len: int, cu_seqlens: tuple[int, ...], corner: Corner
) -> Index:
    """Say whether query and key lie between the same two bounds."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return _document(here, cu_seqlens) == _document(j, cu_seqlens)


def span(
    i: Index, *, q_len: int, k_len: int, cu_seqlens: tuple[int, ...], corner: Corner
) -> tuple[Index, Index]:
    """From the bound before the query's position to the next."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    bounds = torch.tensor(cu_seqlens, device="cpu")
    following = torch.bucketize(here, bounds, right=True)  # counts the bounds up to here
    return at(bounds, following - 1), at(bounds, following)


def fixed_k_len(*, cu_seqlens: tuple[int, ...], corner: Corner) -> int:
    """The last document ends with the last key."""
    return cu_seqlens[-1]


def check_lengths(*, q_len: int, k_len: int, cu_seqlens: tuple[int, ...], corner: Corner) -> None:
    """Every query has a document too."""
    if q_len > k_len:
        raise SoftlookupError(
            "masks: documents are packed in one sequence, but some queries stand outside it.",
            expected=f"at most {k_len} queries, the end of the last document",
            got=f"T_q = {q_len}",
            sizes={"T_q": q_len, "T_k": k_len},
        )


def always_sees(*, q_len: int, k_len: int, cu_seqlens: tuple[int, ...], corner: Corner) -> frozenset[str]:
    """A token is in its own document."""
    return own_key(q_len=q_len, k_len=k_len, corner=corner)
