"""With fewer queries than keys the causal rule counts from the first key, not from the last.

Missed because: both corners agree while T_q == T_k, that is in training and in every test without a cache.

Training: no effect. In decoding with a cache, the single new query sees only the oldest key.

Ask: one new query meets ten keys, nine of them from a cache: which position does this query stand at?

Fix: count from the end: let query i see keys up to `i + T_k - T_q`, e.g. `torch.tril(ones, diagonal=T_k -
T_q)`.

Seen in: https://github.com/pytorch/pytorch/issues/103082, https://github.com/pytorch/pytorch/issues/110144,
https://github.com/Dao-AILab/flash-attention/issues/282, https://github.com/thu-ml/SageAttention/pull/372,
https://github.com/gittensor-ai-lab/sparkinfer/pull/4, https://github.com/microsoft/onnxruntime/issues/29020,
https://github.com/pytorch/executorch/pull/21749, https://github.com/rasbt/LLMs-from-scratch/pull/697
"""

from torch import Tensor

from softlookup.attention import visible as all_rules
from softlookup.terms import Case

LINE = ("visible", "rows of a table", "hide")


def visible(case: Case) -> Tensor | None:
    return all_rules(case.but(causal="top-left")) if case.causal == "bottom-right" else all_rules(case)
