"""A linear bias (ALiBi) whose slopes are 2 ** (-8 h / H) for any number of heads, as declared or held.

Seen in: Press et al. 2022, https://arxiv.org/abs/2108.12409
"""

import re
from collections.abc import Iterator

import torch

from softlookup.checker.docstrings import documentation
from softlookup.checker.evidence import Evidence
from softlookup.masks import linear_distance
from softlookup.terms import Case

HINTS = ("alibi", "slope", "linear bias", "** (-8", "**(-8", "^(-8")
_DECLARED = re.compile(
    r"2(\.0)? ?(\*\*|\^) ?\(-8|\b(h|heads)( is| be)?,? a power of two|(is|be) a power of two"
)
_OTHERS = re.compile(r"slopes[^.]{0,40}\bpaper|not a power of two")


def VARIANTS(evidence: Evidence) -> Iterator[str]:  # noqa: N802
    """A function must declare these slopes; a module keeps the slopes it was trained with."""
    sketch = evidence.sketch
    if sketch is None:
        return
    text = documentation(sketch).lower()
    if _DECLARED.search(text) or (sketch.has_weights and not _OTHERS.search(text)):
        yield "by distance" if "abs(" in sketch.source else "behind minus ahead"


def assume(case: Case, variant: str) -> Case:
    T_q, T_k, H = case.q.shape[-2], case.k.shape[-2], case.q.shape[1]
    slope = torch.tensor([2 ** (-8 * h / H) for h in range(1, H + 1)], dtype=case.q.dtype)[:, None, None]
    i, j = torch.arange(T_q)[:, None], torch.arange(T_k)
    corner = case.causal or "top-left"
    bias = linear_distance.bias(i, j, q_len=T_q, k_len=T_k, slope=slope, corner=corner)[None]
    if variant == "behind minus ahead":
        bias = torch.where(j > i + (T_k - T_q if corner == "bottom-right" else 0), -bias, bias)
    return case.but(additive_bias=bias if case.additive_bias is None else bias + case.additive_bias)
