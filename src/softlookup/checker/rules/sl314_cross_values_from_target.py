"""In cross-attention keys or values come from the target, although the memory was given.

Missed because: with as many target tokens as source tokens nothing has the wrong shape.

Training: the decoder reads itself where it should read the source: fluent, and about something else.

Ask: which of the two inputs holds what is looked at?

Fix: queries from the target, keys and values from the memory: `self.k_proj(memory)`, `self.v_proj(memory)`.

Seen in: https://github.com/rexrex9/nlp_torchtext/pull/2
"""

from collections.abc import Iterator

from torch import Tensor

from softlookup.checker.evidence import Evidence
from softlookup.checker.projecting import project as projected
from softlookup.checker.wiring import tokens_of
from softlookup.terms import Case

LINE = ("crossed", "from target")


def VARIANTS(evidence: Evidence) -> Iterator[str]:  # noqa: N802
    """Which projections were given the target; all the wrong way round, where names say which input asks."""
    yield from ("v", "k", "kv")
    if evidence.wiring is not None and evidence.wiring.asker_stated:
        yield "swapped"


def project(case: Case, variant: str) -> tuple[Tensor, Tensor, Tensor]:
    found = dict(zip("qkv", projected(case), strict=True))
    tokens = tokens_of(case)
    for role in "kv" if variant == "swapped" else variant:
        found[role] = tokens.projected(role, source=tokens.x)
    if variant == "swapped":
        found["q"] = tokens.projected("q", source=tokens.memory)
    return found["q"], found["k"], found["v"]
