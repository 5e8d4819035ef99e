"""Prefix-LM: every query sees the whole prefix; after it, only what is not later than itself.

    q_len=5 k_len=5 prefix_lengths=3 corner=top-left
    1 1 1 . .
    1 1 1 . .
    1 1 1 . .
    1 1 1 1 .
    1 1 1 1 1

    q_len=2 k_len=5 prefix_lengths=2 corner=bottom-right
    1 1 1 1 .
    1 1 1 1 1

With prefix_lengths=0 it is the plain causal rule.

Used by: T5's prefix language model, PrefixLM training of UL2, PaliGemma (image and prompt are the prefix),
attention-gym's prefix_lm.
"""

from typing import Any

from softlookup.masks.accept import corner_name, per_sample, within
from softlookup.masks.predicate import Index, larger, own_key, query_position
from softlookup.terms import Corner

PER_SAMPLE = ("prefix_lengths",)


def parameters(*, prefix_lengths: Any, corner: Corner = "top-left") -> dict[str, Any]:
    """``prefix_lengths``: keys of each sample that everybody sees."""
    return {"prefix_lengths": per_sample("prefix_lengths", prefix_lengths), "corner": corner_name(corner)}


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, prefix_lengths: Index, corner: Corner) -> Index:
    """Say whether key j is in the prefix or not after query i."""
    return (j < prefix_lengths) | (j <= query_position(i, q_len=q_len, k_len=k_len, corner=corner))


def span(i: Index, *, q_len: int, k_len: int, prefix_lengths: Index, corner: Corner) -> tuple[Index, Index]:
    """All keys up to the end of the prefix, or to the query where it stands behind that."""
    here = query_position(i, q_len=q_len, k_len=k_len, corner=corner)
    return 0, larger(prefix_lengths, here + 1)


def check_lengths(*, q_len: int, k_len: int, prefix_lengths: Any, corner: Corner) -> None:
    """No prefix is longer than the sequence."""
    within("prefix_lengths", prefix_lengths, q_len=q_len, k_len=k_len)


def always_sees(*, q_len: int, k_len: int, prefix_lengths: Any, corner: Corner) -> frozenset[str]:
    """Key 0 is in the prefix or before everybody."""
    shortest = prefix_lengths if isinstance(prefix_lengths, int) else min(prefix_lengths)
    first = frozenset({"first key"} if corner == "top-left" or q_len <= k_len or shortest else set())
    return first | own_key(q_len=q_len, k_len=k_len, corner=corner)
