"""The scores run over the head axis: at each position the heads attend to each other, and tokens never meet.

Missed because: (B, T, H, d) and (B, H, T, d) both run through `q @ k.transpose(-2, -1)` and give their own
shape back.

Training: the layer is a per-token network; nothing is read from other tokens, and a causal rule hides heads.

Ask: which two axes does this product contract, and which remain as rows and columns?

Fix: move the heads before the tokens: `q.transpose(1, 2)`, and back after the lookup.

Seen in: https://github.com/facebookresearch/xformers/issues/677,
https://github.com/HabanaAI/vllm-fork/pull/1218
"""

from collections.abc import Callable

from torch import Tensor

from softlookup.attention import repeat_kv_heads as one_head_each
from softlookup.terms import Case, SoftlookupError

LINE = ("score",)


def around(run: Callable[[Case], tuple[Tensor, Tensor]], case: Case) -> tuple[Tensor, Tensor]:
    if case.q.dim() != 4 or case.q.shape[-2] != case.k.shape[-2]:
        raise SoftlookupError("heads attend to heads only in 4-D tensors with as many queries as keys.")
    k, v = one_head_each(case.k, case), one_head_each(case.v, case)
    swapped = case.but(q=case.q.transpose(1, 2), k=k.transpose(1, 2), v=v.transpose(1, 2))  # [B, T, H, d]
    output, weights = run(swapped)  # weights: [B, T, H, H]
    return output.transpose(1, 2), weights
