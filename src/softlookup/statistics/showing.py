"""Numbers of heads as people and programs read them: a small table, and JSON values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from softlookup.statistics.moments import Moments

_MOST_LINES = 32


def in_words(
    moments: Mapping[str, Moments], counts: Mapping[str, Tensor], max_score_bounds: tuple[Tensor, Tensor]
) -> str:
    """Return a table of the means, a line for each head, and below it what is seldom and worth a look.

    Every tensor is [1, H]. Of the largest score the table shows the exact one or else its bounds.
    """
    heads = range(counts["queries"].shape[-1])
    columns = {"head": [str(head) for head in heads]}
    for name, it in moments.items():
        if not name.startswith("max_score"):
            columns[name] = [f"{mean:.4g}" for mean in it.mean[0].tolist()]
    least, most = (bound[0].tolist() for bound in max_score_bounds)
    columns["max_score"] = [f"{low:.4g} to {high:.4g}" for low, high in zip(least, most, strict=True)]
    if "max_score" in moments:
        columns["max_score"] = [f"{high:.4g}" for high in moments["max_score"].high[0].tolist()]
    totals = {name: int(count.sum()) for name, count in counts.items()}
    hidden = 1 - totals["visible_pairs"] / max(totals["possible_pairs"], 1)
    lines = [_table(columns), f"{hidden:.1%} of the pairs of query and key are hidden"]
    for name, words in (
        ("empty_rows", f"of {totals['queries']} queries see no key"),
        ("nan_count", "visible scores are NaN"),
        ("inf_count", "visible scores are infinite"),
    ):
        lines += [f"{totals[name]} {words}"] * (totals[name] > 0)
    return "\n".join(lines)


def _table(columns: Mapping[str, Sequence[str]]) -> str:
    """Return columns of cells under their names, to the right; what goes beyond 32 lines is counted."""
    widths = {name: max(map(len, [name, *cells])) for name, cells in columns.items()}
    lines = ["  ".join(name.rjust(width) for name, width in widths.items())]
    for cells in zip(*columns.values(), strict=True):
        lines.append("  ".join(cell.rjust(width) for cell, width in zip(cells, widths.values(), strict=True)))
    left_out = len(lines) - 1 - _MOST_LINES
    return "\n".join([*lines[: _MOST_LINES + 1], *([f"... and {left_out} more"] if left_out > 0 else [])])


def counted(count: int, what: str) -> str:
    """Return a number of things in words.

    >>> counted(1, "step"), counted(2, "step")
    ('1 step', '2 steps')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def plain(values: Tensor) -> Any:
    """Return a tensor as JSON values: nested lists; what JSON cannot write is "nan", "inf" or "-inf".

    >>> import torch
    >>> plain(torch.tensor([1.0, float("nan")]))
    [1.0, 'nan']
    """
    return _finite(values.tolist())


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return [_finite(it) for it in value]
    return value if isinstance(value, int) or math.isfinite(value) else str(value)
