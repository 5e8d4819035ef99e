"""Batch and sequence axes are confused: position t of one sample attends to position t of the other samples.

Missed because: (T, B, d) and (B, T, d) both run; `batch_first` has two defaults.

Training: samples of a batch read each other, tokens of one sentence do not; results change with the batch.

Ask: what stands in axis 0 here, samples or positions?

Fix: say which axis comes first: `batch_first=True`, or transpose before and after the call.

Seen in: https://github.com/om-ai-lab/OmDet/issues/19, https://github.com/kyegomez/movie-gen/issues/8,
https://github.com/gazelle93/Transformer-Various-Positional-Encoding/issues/1
"""

from collections.abc import Callable

from torch import Tensor

from softlookup.terms import Case, SoftlookupError

LINE = ("score",)


def around(run: Callable[[Case], tuple[Tensor, Tensor]], case: Case) -> tuple[Tensor, Tensor]:
    if case.q.dim() < 3 or case.q.shape[-2] != case.k.shape[-2]:
        raise SoftlookupError("batch and sequence can be swapped only with as many queries as keys.")
    swapped = case.but(q=case.q.transpose(0, -2), k=case.k.transpose(0, -2), v=case.v.transpose(0, -2))
    output, weights = run(swapped)  # [T, ..., B, d_v] and [T, ..., B, B]
    return output.transpose(0, -2), weights
