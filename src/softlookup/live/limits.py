"""From where on something is an alarm, and what an alarm file says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Limits:
    """From where on something is an alarm.

    max_score: the largest scaled score of a visible key. Beyond about 89 the exponential of the bare score
        overflows float32; healthy models stay well below
    forbidden_mass: weight on keys that the declared rule hides, of one query; rounding stays below it
    entropy_fraction: mean entropy, as a share of the most there can be, log(visible keys)
    row_sum_error: how far the weights of a query may be from adding up to 1; bfloat16 rounds by 0.004
    patience: measured calls of one layer in a row that must show a collapse
    """

    max_score: float = 100.0
    forbidden_mass: float = 1e-5
    entropy_fraction: float = 0.005
    row_sum_error: float = 0.05
    patience: int = 4


class Raised(NamedTuple):
    """One thing that an alarm file found: the head, None for all of them; its number; what is wrong."""

    head: int | None
    value: float
    words: str
    code: str = ""  # of another rule that says it better
