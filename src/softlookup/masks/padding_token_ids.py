"""Padding read from the tokens: a key is real when its token is not ``pad_id``.

    q_len=2 k_len=5 token_ids=[12,91,33,0,0] pad_id=0
    1 1 1 . .
    1 1 1 . .

    q_len=1 k_len=4 token_ids=[7,7,44,7] pad_id=7
    . . 1 .

A real token that happens to have the id ``pad_id`` (an end-of-text token that doubles as padding) is hidden
too; where that occurs, give lengths.

Used by: most training loops, as ``token_ids != pad_id``; transformers' attention_mask holds the same answer
as 0 and 1.
"""

from typing import Any

from softlookup.masks.accept import ids, whole_number
from softlookup.masks.predicate import Index, at

PER_TOKEN = ("token_ids",)
KEYS_ONLY = True


def parameters(*, token_ids: Any, pad_id: int = 0) -> dict[str, Any]:
    """``token_ids: [B, T_k]``; ``pad_id`` may be negative, as some data sets have it."""
    return {
        "token_ids": ids("token_ids", token_ids),
        "pad_id": whole_number("pad_id", pad_id, at_least=-(2**63)),
    }


def allowed(i: Index, j: Index, *, q_len: int, k_len: int, token_ids: Any, pad_id: int) -> Index:
    """Say whether key j holds a real token."""
    return at(token_ids, j) != pad_id


def fixed_k_len(*, token_ids: Any, pad_id: int) -> int:
    """There is one key for each token."""
    return int(token_ids.shape[-1])
