"""The faithfulness verdict of one head and query, as facts for the page."""

from __future__ import annotations

from typing import Any

from torch import nn

from softlookup.lab.jobs import Progress
from softlookup.lab.outcomes import Outcome
from softlookup.lab.readings import Reading


def verdict_facts(
    model: nn.Module, reading: Reading, place: tuple[str, int, int, int], progress: Progress
) -> dict[str, Any]:
    """Return the verdict. place: layer, head, query, and the position whose prediction is measured."""
    raise NotImplementedError


def metric_written(outcome: Outcome, at: int) -> tuple[list[str], str]:
    """Return imports and the metric, as Python."""
    raise NotImplementedError
