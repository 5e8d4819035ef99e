"""A sliding window is built in: a query sees its last few keys, itself included, or as many on both sides.

Seen in: https://github.com/huggingface/transformers/pull/26792
"""

from collections.abc import Iterator

from softlookup.checker.evidence import Evidence
from softlookup.terms import Case

HINTS = ("window", "local", "sliding", "band", "span")


def VARIANTS(evidence: Evidence) -> Iterator[tuple[int, bool]]:  # noqa: N802
    """Keys that are seen, and whether ahead too; none where a window is known already."""
    case = evidence.observations[0].case
    if case.window is None:
        for keys in (2, 3, 4, 5, 6, 8, 16):
            if case.causal is not None:  # looking back only is causal, and that nobody asked for
                yield keys, False
            yield keys, True


def assume(case: Case, variant: tuple[int, bool]) -> Case:
    keys, ahead = variant
    if case.window is not None or (case.causal is None and not ahead):
        return case
    return case.but(window=keys, window_ahead=ahead)
