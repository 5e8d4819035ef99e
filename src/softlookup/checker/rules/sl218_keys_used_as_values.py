"""The weights mix the keys, not the values.

Missed because: keys and values have the same shape in nearly every model.

Training: the value projection gets no gradient at all and stays as it was initialised.

Ask: which of the three inputs carries the content that is handed on?

Fix: mix the values: `weights @ v`.

Seen in: https://github.com/meta-pytorch/torchtune/pull/21,
https://github.com/yflyzhang/AnnotatedTransformer/issues/1
"""

from torch import Tensor

from softlookup.attention import mix as mixed
from softlookup.attention import repeat_kv_heads as one_head_each
from softlookup.terms import Case

LINE = ("keys taken", "mix")


def mix(weights: Tensor, v: Tensor, case: Case) -> Tensor:
    return mixed(weights, one_head_each(case.k, case), case)
