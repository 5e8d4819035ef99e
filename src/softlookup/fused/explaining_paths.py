"""Which path a call takes, why, and what it computes: in words and numbers, without computing it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from softlookup.fused.paths import Problem, choose
from softlookup.fused.pieces import Plan
from softlookup.masks import Bias, Mask
from softlookup.masks.spans import spans_of
from softlookup.terms import SoftlookupError

_ROWS_AT_ONCE = 256
_SHAPES = {
    "full": "rectangle",
    "triangle": "triangle",
    "mirrored": "mirrored triangle",
    "tile": "masked block",
}


@dataclass(frozen=True)
class Path:
    """How one call of attend is computed.

    calls: what is handed to fused kernels, in words
    logits: scores that are computed, over the whole batch, for one head
    visible: scores that the mask shows, likewise
    possible: B * T_q * T_k
    """

    name: str
    reason: str
    calls: tuple[str, ...]
    logits: int
    visible: int
    possible: int

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {**asdict(self), "calls": list(self.calls)}

    def __str__(self) -> str:
        share = self.logits / self.possible if self.possible else 0.0
        seen = self.visible / self.possible if self.possible else 0.0
        lines = [f"{self.name}: {self.reason}", *(f"  {call}" for call in self.calls)]
        return "\n".join([*lines, f"  computes {share:.1%} of the scores; the mask shows {seen:.1%}"])


def explain_path(
    mask: Mask | Bias | Tensor | None,
    *,
    q_len: int,
    k_len: int,
    batch: int = 1,
    heads: int = 1,
    **options: Any,
) -> Path:
    """Return the path that ``attend`` takes for these sizes, from the mask alone.

    options: d_head, device, dropout_p

    Raises: SoftlookupError when the lengths do not fit the mask.

    >>> from softlookup.masks import causal
    >>> print(explain_path(causal(), q_len=4, k_len=4))
    causal flag: causal, counted from the first key: what is_causal does
      1 triangle: 4 queries x 4 keys
      computes 62.5% of the scores; the mask shows 62.5%
    """
    if isinstance(mask, Tensor):
        mask = mask[(None,) * (4 - mask.dim())]
    unknown = set(options) - {"d_head", "device", "dropout_p"}
    if unknown:
        raise SoftlookupError(
            "explain_path: unknown options.",
            expected="d_head, device or dropout_p",
            got=", ".join(sorted(unknown)),
        )
    d_head, device = options.get("d_head", 64), options.get("device", "cpu")
    q = torch.zeros(1, device=device).expand(batch, heads, q_len, d_head)
    k = torch.zeros(1, device=device).expand(batch, heads, k_len, d_head)
    return path_of(
        Problem(q, k, k, mask, 1.0, dropout_p=options.get("dropout_p", 0.0), empty_rows_allowed=True)
    )


def path_of(problem: Problem) -> Path:
    """Return the path of a problem."""
    way, reason = choose(problem)
    batch, (q_len, k_len) = problem.q.shape[0], problem.lengths
    possible = batch * q_len * k_len
    plan = way.plan(problem)
    if plan is None:
        call = f"1 call of F.scaled_dot_product_attention with the whole mask: {q_len} queries x {k_len} keys"
        return Path("whole mask", reason, (call,), possible, _visible(problem), possible)
    words = f"{reason}; {plan.reason}" if plan.reason else reason
    return Path(way.name, words, tuple(_calls(plan)), plan.logits(batch), _visible(problem), possible)


def _calls(plan: Plan) -> list[str]:
    """Pieces of one size are one line."""
    counted = Counter((piece.shape, piece.q_len, piece.k_len, piece.count) for piece in plan.pieces)
    lines = []
    for (shape, rows, keys, folded), times in counted.items():
        word = _SHAPES[shape] + ("s" if times > 1 else "")
        each = f", {folded} folded into the batch" if folded > 1 else ""
        lines.append(f"{times} {word}: {rows} queries x {keys} keys{each}")
    if len(lines) > 8:
        return [*lines[:7], f"and {sum(counted.values()) - sum(list(counted.values())[:7])} more"]
    return lines


def _visible(problem: Problem) -> int:
    """Count the visible pairs over the batch, for one head."""
    mask, batch, (q_len, k_len) = problem.mask, problem.q.shape[0], problem.lengths
    if isinstance(mask, Bias):
        mask = mask.mask
    if mask is None:
        return batch * q_len * k_len
    if isinstance(mask, Tensor):
        shown = mask if mask.dtype == torch.bool else mask != -math.inf
        share = batch * q_len * k_len / (shown.numel() or 1)
        return round(int(shown.sum()) * share)
    spans = spans_of(mask, q_len, k_len)
    if spans is not None:
        counts = spans.counts()
        return int(counts.sum()) * (batch if counts.shape[0] == 1 else 1)
    seen = 0
    for start in range(0, q_len, _ROWS_AT_ONCE):
        rows = mask._answer(torch.arange(start, min(start + _ROWS_AT_ONCE, q_len)), q_len, k_len)
        seen += int(rows.sum()) * batch // (rows.shape[0] * rows.shape[1])
    return seen
