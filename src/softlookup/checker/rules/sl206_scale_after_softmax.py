"""The weights are scaled, not the scores: the factor comes after the softmax.

Missed because: the formula has the same parts; in einsum code the factor slips behind the softmax.

Training: rows sum to 1/sqrt(d_head), so outputs are small, and the softmax saturates as if nothing was
scaled.

Ask: what does a row of weights sum to after this line?

Fix: scale before the softmax: `(scores / math.sqrt(d_head)).softmax(dim=-1)`.

Seen in: https://github.com/FrancescoSaverioZuppichini/ViT/issues/2
"""

from torch import Tensor

from softlookup.attention import normalize as shares
from softlookup.attention import scale as scaled
from softlookup.terms import Case

LINE = ("rescale", "normalize")


def scale(scores: Tensor, case: Case) -> Tensor:
    return scores


def normalize(scores: Tensor, case: Case) -> Tensor:
    return scaled(shares(scores, case), case)
