"""A call of attention as something that can be measured: scores of any of its queries, on demand.

Every door reads its call into one of these. Nothing is computed before it is asked for, and then only the
scores of the queries that are asked for, in float32 (float64 for float64), detached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from softlookup.conventions.tensors import HIDES
from softlookup.live.kept_answers import KeptAnswers, answers_of
from softlookup.statistics.kept_memory import scratch
from softlookup.statistics.reading import Scores, read_scores
from softlookup.terms import MaskLike

_WHOLE = 64  # keys that are summed together: a part of them would be copied


@dataclass(frozen=True, eq=False)
class Problem:
    """The scores of one call: from q, k and a mask, or as the model computed them.

    q_len, k_len, batch_size, num_heads, num_kv_heads: its sizes
    rows: (sample, rows int64 [n]) -> scores [H, n, T_k] scaled, with what is added; allowed bool, the same or
        broadcastable. Hidden scores may hold anything; keys at the end that none of them sees are left out.
    outputs: what the call returned, to be looked at for NaN and inf; sources: what came in
    row_sums: (sample, rows) -> sums [H, n] of the weights that the model computed, where there are any
    """

    batch_size: int
    num_heads: int
    num_kv_heads: int
    q_len: int
    k_len: int
    rows: Callable[[int, Tensor], tuple[Tensor, Tensor]]
    device: torch.device
    output: Tensor | None = None
    sources: dict[str, Tensor] = field(default_factory=dict)
    row_sums: Callable[[int, Tensor], Tensor] | None = None


def from_products(
    q: Tensor,
    k: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    scale: float | None = None,
    v: Tensor | None = None,
    output: Tensor | None = None,
) -> Problem:
    """Return the problem of q [..., H, T_q, d_head] and k [..., H_kv, T_k, d_head].

    mask: as ``attend`` takes it;  scale: 1/sqrt(d_head) if None
    v: the values, where NaN may have come in with them

    Raises: SoftlookupError for a mask that is none or does not fit.
    """
    with torch.no_grad():
        answers = answers_of(mask, q, k)
        scores = read_scores(q, k, mask, scale=scale, seen=answers.seen)
    batch, heads, q_len, _ = scores.q.shape
    kv_heads, k_len = scores.k.shape[1:3]
    return Problem(
        batch,
        heads,
        kv_heads,
        q_len,
        k_len,
        lambda sample, rows: _products(scores, answers, sample, rows),
        scores.q.device,
        output,
        {"queries": scores.q, "keys": scores.k} | ({} if v is None else {"values": v.detach()}),
    )


def _products(scores: Scores, answers: KeptAnswers, sample: int, rows: Tensor) -> tuple[Tensor, Tensor]:
    """[H, n, T_k]: scores of some queries of one sample, and who sees whom."""
    heads, kv_heads = scores.q.shape[1], scores.k.shape[1]
    q = scores.q[sample][:, rows].to(scores.dtype) * scores.scale  # [H, n, d]
    stop = min(scores.k.shape[2], -(-max(1, answers.stop(sample, rows)) // _WHOLE) * _WHOLE)
    k = scores.k[sample, :, :stop].to(scores.dtype)  # [H_kv, stop, d]
    grouped = q.reshape(kv_heads, heads // kv_heads * len(rows), -1)
    found = scratch("scores", (*grouped.shape[:2], stop), grouped)
    found = torch.bmm(grouped, k.transpose(1, 2), out=found).view(heads, len(rows), stop)
    added, allowed = answers.shown(sample, rows, slice(0, stop))
    if added is not None:
        found += added
    return found, allowed


def from_scores(scores: Tensor, weights: Tensor | None = None, *, sinks: Tensor | None = None) -> Problem:
    """Return the problem of scores [B, H, T_q, T_k] that a model computed, masks added to them already.

    weights: what its softmax made of them;  sinks: [B, H, T_q, 1] a score beside those of the keys

    A key is hidden from a query where the score is -9000 or less: what is added to hide is larger, and no
    score of a working model is.
    """
    batch, heads, q_len, k_len = scores.shape
    scores = scores.detach()
    kept = weights.detach() if weights is not None else None
    wide = torch.float64 if scores.dtype == torch.float64 else torch.float32

    def rows_of(sample: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        found = scores[sample][:, rows].to(wide)
        if sinks is not None:
            found = torch.cat([found, sinks.detach()[sample][:, rows].to(wide)], dim=-1)
        return found, ~(found <= HIDES)  # NaN is a visible score

    def sums_of(sample: int, rows: Tensor) -> Tensor:
        assert kept is not None
        return kept[sample][:, rows].to(wide).sum(dim=-1)

    return Problem(
        batch,
        heads,
        heads,
        q_len,
        k_len,
        rows_of,
        scores.device,
        kept,
        {"scores": scores},
        sums_of if kept is not None else None,
    )
