"""One projection serves two roles that have their own weights.

Missed because: the copied line runs, and the weight that is never used is in the state dict as if it were.

Training: the unused projection gets no gradient and stays as it was initialised.

Ask: set the weight of one projection to zero: does anything change?

Fix: give each role its own: `v = self.v_proj(value)`.

Seen in: https://github.com/yflyzhang/AnnotatedTransformer/issues/1
"""

from torch import Tensor

from softlookup.checker.calls import Recorded
from softlookup.checker.projecting import project as projected
from softlookup.checker.wiring import tokens_of
from softlookup.terms import Case

LINE = ("projected again",)
#: (role, the projection that it goes through instead of its own)
VARIANTS = tuple((role, other) for role in "vkq" for other in "qkv" if other != role)


def project(case: Case, variant: tuple[str, str]) -> tuple[Tensor, Tensor, Tensor]:
    role, other = variant
    found = dict(zip("qkv", projected(case), strict=True))
    found[role] = tokens_of(case).projected(role, table=other)
    return found["q"], found["k"], found["v"]


def recorded(calls: tuple[Recorded, ...]) -> bool:
    """Another rule predicts the same where k is mixed; here one weight is applied twice."""
    used = [
        call.reads[1] for call in calls if call.op in {"linear", "conv1d", "conv2d"} and len(call.reads) > 1
    ]
    return len(used) > len(set(used))
