"""In cross-attention keys or values come from the target, although the memory was given.

Missed because: with as many target tokens as source tokens nothing has the wrong shape.

Training: the decoder reads itself where it should read the source: fluent, and about something else.

Fix: queries from the target, keys and values from the memory: `self.k_proj(memory)`, `self.v_proj(memory)`.

Seen in: https://github.com/rexrex9/nlp_torchtext/pull/2
"""

from torch import Tensor

from softlookup.checker.projecting import project as projected
from softlookup.checker.wiring import tokens_of
from softlookup.terms import Case

LINE = ("crossed", "from target")
#: Which projections were given the target; "swapped": queries from the memory, the others from the target.
VARIANTS = ("v", "k", "kv", "swapped")


def project(case: Case, variant: str) -> tuple[Tensor, Tensor, Tensor]:
    found = dict(zip("qkv", projected(case), strict=True))
    tokens = tokens_of(case)
    for role in "kv" if variant == "swapped" else variant:
        found[role] = tokens.projected(role, source=tokens.x)
    if variant == "swapped":
        found["q"] = tokens.projected("q", source=tokens.memory)
    return found["q"], found["k"], found["v"]
