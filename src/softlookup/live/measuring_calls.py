"""What is measured of a call: the numbers of some of its queries, spread over samples and positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import torch
from torch import Tensor

from softlookup.live.kept_answers import KeptAnswers
from softlookup.live.problem import Problem
from softlookup.remembering import remembered
from softlookup.statistics.row_sampling import rows_of_scores
from softlookup.statistics.rows import Rows
from softlookup.statistics.summary import Statistics

_AT_ONCE = 3 << 18  # scores: 3 MiB in float32, and twice that with what is made of them
_GOLDEN = 0.6180339887498949  # its multiples fall between all earlier ones, so in time every query is met


@dataclass(frozen=True)
class Sampling:
    """How much of a call is measured.

    queries: at most so many queries of a call, over all its samples; None: all
    heads: which heads; None: all
    turn: another number picks other queries
    """

    queries: int | None = None
    heads: Sequence[int] | None = None
    turn: int = 0

    def rows(self, batch_size: int, q_len: int) -> Tensor:
        """Return which queries of every sample are measured: int64 [n], rising."""
        if self.queries is None or self.queries >= batch_size * q_len:
            return torch.arange(q_len)
        return _spread(min(q_len, max(1, self.queries // batch_size)), q_len, self.turn)


@remembered(maxsize=16)  # all layers of a step ask the same
def _spread(n: int, q_len: int, turn: int) -> Tensor:
    """n of the positions below q_len, equally far apart, beginning elsewhere in each turn."""
    stride = q_len / n
    start = (turn * _GOLDEN) % 1 * stride
    return (torch.arange(n, dtype=torch.float64) * stride + start).long().clamp(max=q_len - 1)


@torch.no_grad()
def measure(
    problem: Problem, sampling: Sampling, rule: KeptAnswers | None = None, *, first_position: int = 0
) -> tuple[Statistics, int]:
    """Return the statistics of a call over all its samples, [1, H] on the CPU, and of how many queries.

    rule: who may see whom, as declared;  first_position: where query 0 stands among the keys
    """
    chosen = sampling.rows(problem.batch_size, problem.q_len).to(problem.device)
    with torch.autocast(problem.device.type, enabled=False):
        samples = [
            reduce(Rows.concat, _of_sample(problem, sampling, rule, sample, chosen, first_position))
            for sample in range(problem.batch_size)
        ]
    rows = _beside(samples)
    return Statistics.from_rows(rows.to("cpu")).over_batch(), problem.batch_size * len(chosen)


def _of_sample(
    problem: Problem,
    sampling: Sampling,
    rule: KeptAnswers | None,
    sample: int,
    chosen: Tensor,
    first_position: int,
) -> Iterator[Rows]:
    """Yield rows [1, H, n] of some queries of one sample after the other."""
    n = max(1, _AT_ONCE // max(1, problem.num_heads * problem.k_len))
    for rows in torch.split(chosen, n):
        scores, allowed = problem.rows(sample, rows)
        keys = slice(0, min(scores.shape[-1], problem.k_len))
        promised = None if rule is None else rule.allowed(sample, rows, keys)
        sums = None if problem.row_sums is None else problem.row_sums(sample, rows)
        if sampling.heads is not None:
            heads = list(sampling.heads)
            scores = scores[heads]
            allowed = allowed if len(allowed) == 1 else allowed[heads]
            promised = promised if promised is None or len(promised) == 1 else promised[heads]
            sums = None if sums is None else sums[heads]
        found = rows_of_scores(
            scores[None],
            allowed[None],
            rows + first_position,
            rule=None if promised is None else promised[None],
            sinks=max(0, scores.shape[-1] - problem.k_len),
            num_keys=problem.k_len,
        )
        yield found if sums is None else replace(found, row_sum=sums[None])


def _beside(samples: list[Rows]) -> Rows:
    """Rows [1, H, n] of all samples as rows [B, H, n]."""
    if len(samples) == 1:
        return samples[0]
    tensors = [it.tensors() for it in samples]
    names = tensors[0].keys() - {"query_position"}
    together: dict[str, Any] = {name: torch.cat([it[name] for it in tensors]) for name in names}
    return replace(samples[0], **together)
