"""Padding after the real tokens: the first ``lengths`` keys of a sample are real.

    q_len=2 k_len=5 lengths=3
    1 1 1 . .
    1 1 1 . .

    q_len=2 k_len=3 lengths=0
    . . .
    . . .

Padding hides columns (keys), never rows: what a padded query returns is dropped by the loss mask.

Used by: tokenizers with padding_side="right", flash-attention's varlen calls, nn.TransformerEncoder's
src_key_padding_mask (there True means padding).
"""

from typing import Any

from softlookup.masks.accept import per_sample, within
from softlookup.masks.predicate import Index, own_key
from softlookup.terms import Corner

PER_SAMPLE = ("lengths",)
KEYS_ONLY = True


def parameters(*, lengths: Any) -> dict[str, Any]:
    """``lengths``: real tokens of each sample."""
    return {"lengths": per_sample("lengths", lengths)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, lengths: Index) -> Index:
    """Say whether key j is one of the first ``lengths``."""
    return j < lengths


def span(i: Index, *, q_len: int, k_len: int, lengths: Index) -> tuple[Index, Index]:
    """The first ``lengths`` keys."""
    return 0, lengths


def check_lengths(*, q_len: int, k_len: int, lengths: Any) -> None:
    """No sample has more real tokens than keys."""
    within("lengths", lengths, q_len=q_len, k_len=k_len)


def always_sees(*, q_len: int, k_len: int, lengths: Any) -> frozenset[str]:
    """The first token of every sample is real, unless a sample has none."""
    shortest = lengths if isinstance(lengths, int) else min(lengths)
    if shortest < k_len:
        return frozenset({"first key"} if shortest else set())
    # Nothing is hidden, so each query sees whatever the other rules show it.
    corners: tuple[Corner, ...] = ("top-left", "bottom-right")
    own = (own_key(q_len=q_len, k_len=k_len, corner=corner) for corner in corners)
    return frozenset({"first key", "last key"}).union(*own)
