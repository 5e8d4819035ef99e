"""The raw input is mixed as values; the value projection is not applied.

Missed because: the input has the width of the values.

Training: the value projection gets no gradient; a head can only hand on its slice of the input.

Ask: which projection has no influence on the output?

Fix: project the values as well: `v = self.v_proj(x)`.

Seen in: none of the collected reports.
"""

from torch import Tensor

from softlookup.checker.projecting import project as projected
from softlookup.checker.wiring import tokens_of
from softlookup.terms import Case

LINE = ("raw values", "mix")


def project(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    q, k, _ = projected(case)
    return q, k, tokens_of(case).values.to(q.dtype)
