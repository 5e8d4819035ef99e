"""A weightless share: one more logit joins the softmax, its column is dropped, rows sum to less than one.

With the logit 0 this is softmax1, a 1 added to the denominator.

Seen in: https://github.com/openai/gpt-oss/blob/main/gpt_oss/torch/model.py,
https://github.com/fla-org/flash-linear-attention/pull/831
"""

import torch
from torch import Tensor

from softlookup.terms import Case

WORDS = (
    "sink",
    "softmax1",
    "softmax_one",
    "softmax one",
    "off-by-one",
    "off by one",
    "quiet",
    "sum to less than one",
)
#: Keys that a layer appends for everybody: with the weights that are chosen for it they are 0, and so are
#: their values.
HINTS = ("add_zero_attn", "add_bias_kv", "sink")
VARIANTS = (1, 2)


def normalize(scores: Tensor, case: Case, variant: int) -> Tensor:
    column = scores.new_zeros(*scores.shape[:-1], variant)
    return torch.cat([scores, column], dim=-1).softmax(dim=-1)[..., :-variant]
