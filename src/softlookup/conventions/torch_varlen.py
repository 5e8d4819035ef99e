"""torch.nn.attention.varlen.varlen_attn of PyTorch: documents in one row, and no padding.

    cu_seq_q=[0, 3, 5]
    cu_seq_k=[0, 3, 5]
    max_q=3
    max_k=3
    window_size=(-1, 0)

In its words: query is [T_q, H, d], key and value are [T_k, H_kv, d], where T_q and T_k count the tokens of
all samples. cu_seq_q and cu_seq_k are cumulative positions [samples + 1], max_q and max_k the longest ones.
There is no flag for causal: window_size=(left, right) is (-1, 0) for causal, (left, 0) for causal with a
window, and (-1, -1), the default, for all keys. It runs flash-attention and needs a GPU: as there, positions
count from the last key of each sample.

Lost when written: a padded batch is written with all its queries and its real keys, key[real]. Where a band
counts from the first key, as causal does, it can only be written without the padded queries (the drawing
above), which then have no output: that is called lost. So are padding on the left, hidden keys between
others, documents whose tokens are apart, what differs between heads, and every other pattern.

Lost when read: where the padding was. Without batch_size the mask is that of the row; with it, each sample
has one document, or those that fill it, and a query that is not in the row is read as one that sees all.
"""

from __future__ import annotations

from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.varlen_rows import Rows, bounds_of, fitting, mask_of, rows_of, window_of
from softlookup.masks import Mask

NAME = "torch varlen_attn"
ALSO = ("varlen_attn", "torch.nn.attention.varlen.varlen_attn")
WORDS = "torch 2.13.0"
CALL = "varlen_attn(query, key, value, {})"
TAKES = (
    Takes("cu_seq_q", "bounds", "int", ("documents+1",)),
    Takes("cu_seq_k", "bounds", "int", ("documents+1",)),
)
CAUSAL = {"window_size": (-1, 0)}
WINDOW = ({"window_size": (3, 0)}, "keys before the own one")


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read the bounds and ``window_size``; without bounds of keys they are those of queries."""
    found = take_known(arguments, ("cu_seq_q", "cu_seq_k", "max_q", "max_k", "window_size"), NAME)
    left, right = window_of(found["window_size"], NAME)
    q_bounds = bounds_of(found["cu_seq_q"], NAME, "cu_seq_q")
    k_bounds = q_bounds if found["cu_seq_k"] is None else bounds_of(found["cu_seq_k"], NAME, "cu_seq_k")
    rows = fitting(Rows(q_bounds, k_bounds, left, right), (found["max_q"], found["max_k"]), NAME)
    return Reading(mask_of(rows, sizes, NAME))


def as_rows(mask: Mask, sizes: Sizes) -> Spelling:
    """Cumulative lengths, and a window for causal."""
    rows, lost = rows_of(mask, sizes)
    max_q, max_k = rows.longest
    arguments = {
        "cu_seq_q": rows.q_tensor(),
        "cu_seq_k": rows.k_tensor(),
        "max_q": max_q,
        "max_k": max_k,
        "window_size": (rows.left, rows.right),
    }
    return Spelling(arguments, lost)


FORMS = {"rows": as_rows}
