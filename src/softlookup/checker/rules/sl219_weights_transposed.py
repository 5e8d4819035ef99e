"""The weights are transposed before they mix the values: columns, which need not sum to one, become rows.

Missed because: square maps fit either way, and an einsum letter out of place is hard to see.

Training: every value is handed to the keys that were looked at; under a causal mask the past receives the
future.

Ask: each output row is a mix for one query: which sums of the weights are one before this line, and which
after?

Fix: keep queries on the rows: `weights @ v`, in einsum `"bhqk,bhkd->bhqd"`.

Seen in: none of the collected reports.
"""

from torch import Tensor

from softlookup.attention import mix as mixed
from softlookup.terms import Case


def mix(weights: Tensor, v: Tensor, case: Case) -> Tensor:
    return mixed(weights.transpose(-2, -1), v, case)
