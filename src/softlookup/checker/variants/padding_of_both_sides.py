"""The padding mask marks queries as well as keys: rows of padding look nowhere, and nobody reads them.

Seen in: https://github.com/lucidrains/conformer/blob/master/conformer/conformer.py
"""

from collections.abc import Iterator

from torch import Tensor

from softlookup.attention import STEPS
from softlookup.attention import visible as all_rules
from softlookup.checker.evidence import Evidence, Observation, same
from softlookup.terms import Case


def VARIANTS(evidence: Evidence) -> Iterator[None]:  # noqa: N802
    """None, once, where rows of padding never answer as if the mask were about keys alone."""
    if not any(_answers_as_a_key_mask(seen) for seen in evidence.observations if seen.compared):
        yield None


def _answers_as_a_key_mask(seen: Observation) -> bool:
    """Say whether rows of padding look at the real keys: then what they return elsewhere counts as well."""
    if seen.output is None or not _marks_tokens(seen.case):
        return False
    mask = seen.case.allowed_mask
    assert mask is not None
    padding = seen.real_rows & ~mask.transpose(-2, -1)[..., 0].expand(seen.real_rows.shape)
    expected = STEPS(seen.case.double())[0]
    if expected.shape != seen.output.shape or not padding.any():
        return False
    return same(seen.output[padding], expected[padding])


def _marks_tokens(case: Case) -> bool:
    """Say whether the mask is about tokens, of which each asks and is asked."""
    mask = case.allowed_mask
    return mask is not None and mask.dim() > 1 and mask.shape[-2] == 1 and mask.shape[-1] == case.q.shape[-2]


def visible(case: Case) -> Tensor | None:
    """[B, H, T_q, T_k] bool: what all rules allow, for the queries that are no padding."""
    allowed, mask = all_rules(case), case.allowed_mask
    if allowed is None or mask is None or not _marks_tokens(case):
        return allowed
    return allowed & mask.transpose(-2, -1)
