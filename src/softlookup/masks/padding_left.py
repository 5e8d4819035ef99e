"""Padding before the real tokens: the last ``lengths`` keys of a sample are real.

    q_len=2 k_len=5 lengths=3
    . . 1 1 1
    . . 1 1 1

    q_len=2 k_len=3 lengths=0
    . . .
    . . .

Together with a causal rule the padded queries at the start see nothing: see ``Mask.empty_rows``.

Used by: tokenizers with padding_side="left", which batched generation needs so that every prompt ends at
the same place.
"""

from typing import Any

from softlookup.masks.accept import per_sample, within
from softlookup.masks.predicate import Index

PER_SAMPLE = ("lengths",)
KEYS_ONLY = True


def parameters(*, lengths: Any) -> dict[str, Any]:
    """``lengths``: real tokens of each sample."""
    return {"lengths": per_sample("lengths", lengths)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, lengths: Index) -> Index:
    """Say whether key j is one of the last ``lengths``."""
    return j >= k_len - lengths


def span(i: Index, *, q_len: int, k_len: int, lengths: Index) -> tuple[Index, Index]:
    """The last ``lengths`` keys."""
    return k_len - lengths, k_len


def check_lengths(*, q_len: int, k_len: int, lengths: Any) -> None:
    """No sample has more real tokens than keys."""
    within("lengths", lengths, q_len=q_len, k_len=k_len)


def always_sees(*, q_len: int, k_len: int, lengths: Any) -> frozenset[str]:
    """The last token of every sample is real, unless a sample has none."""
    return frozenset({"last key"} if (lengths if isinstance(lengths, int) else min(lengths)) else set())
