"""flash_attn_varlen_func of flash-attn: documents in one row, and no padding.

    cu_seqlens_q=[0, 3, 5]
    cu_seqlens_k=[0, 3, 5]
    max_seqlen_q=3
    max_seqlen_k=3
    causal=True

In its words: q is [total_q, H, d], k and v are [total_k, H_kv, d]: the tokens of all samples, one sample
behind the other, without padding. cu_seqlens_q and cu_seqlens_k are int32 [samples + 1], cumulative lengths;
max_seqlen_q and max_seqlen_k are the longest. A query sees the keys of its own sample only. causal counts
from the last key of each sample (since 2.1; before, from the first). window_size=(left, right) shows a query
left keys before its own position and right keys behind it, both counted from the last key too, and -1 is no
bound; causal makes right 0. A query without any key gets zeros.

Lost when written: a padded batch is written with all its queries and its real keys, k[real]. Where a band
counts from the first key, as causal does, it can only be written without the padded queries (the drawing
above), which then have no output: that is called lost. So are padding on the left, hidden keys between
others, documents whose tokens are apart, what differs between heads, and every other pattern.

Lost when read: where the padding was. Without batch_size the mask is that of the row; with it, each sample
has one document, or those that fill it, and a query that is not in the row is read as one that sees all.
"""

from __future__ import annotations

from softlookup.conventions.spelling import Arguments, Reading, Sizes, Spelling, Takes, take_known
from softlookup.conventions.varlen_rows import NO_BOUND, Rows, bounds_of, fitting, mask_of, rows_of, window_of
from softlookup.masks import Mask

NAME = "flash_attn varlen"
ALSO = ("flash_attn_varlen_func", "flash_attn")
WORDS = "flash-attn 2.6"
CALL = "flash_attn_varlen_func(q, k, v, {})"
TAKES = (
    Takes("cu_seqlens_q", "bounds", "int", ("documents+1",)),
    Takes("cu_seqlens_k", "bounds", "int", ("documents+1",)),
)
CAUSAL = {"causal": True}
WINDOW = ({"causal": True, "window_size": (3, -1)}, "keys before the own one")


def read(arguments: Arguments, sizes: Sizes) -> Reading:
    """Read the bounds, ``causal`` and ``window_size``; without bounds of keys they are those of queries."""
    known = ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k", "causal", "window_size")
    found = take_known(arguments, known, NAME)
    left, right = window_of(found["window_size"], NAME)
    q_bounds = bounds_of(found["cu_seqlens_q"], NAME, "cu_seqlens_q")
    k_bounds = q_bounds
    if found["cu_seqlens_k"] is not None:
        k_bounds = bounds_of(found["cu_seqlens_k"], NAME, "cu_seqlens_k")
    rows = Rows(q_bounds, k_bounds, left, 0 if found["causal"] else right)
    longest = (found["max_seqlen_q"], found["max_seqlen_k"])
    return Reading(mask_of(fitting(rows, longest, NAME), sizes, NAME))


def as_rows(mask: Mask, sizes: Sizes) -> Spelling:
    """Cumulative lengths, and flags for causal and windows."""
    rows, lost = rows_of(mask, sizes)
    longest = rows.longest
    arguments = {
        "cu_seqlens_q": rows.q_tensor(),
        "cu_seqlens_k": rows.k_tensor(),
        "max_seqlen_q": longest[0],
        "max_seqlen_k": longest[1],
        "causal": rows.right == 0,
    }
    if rows.left != NO_BOUND or rows.right > 0:
        arguments["window_size"] = (rows.left, rows.right)
    return Spelling(arguments, lost)


FORMS = {"rows": as_rows}
