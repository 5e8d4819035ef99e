"""Queries and keys are normalised before the product, and a temperature takes the place of 1 / sqrt(d_head).

Where positions are rotations (RoPE), they turn what was normalised.

Seen in: https://github.com/lucidrains/x-transformers/issues/190, https://github.com/Amshaker/unetr_plus_plus/issues/80,
https://github.com/huggingface/transformers/blob/main/src/transformers/models/qwen3/modeling_qwen3.py
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from softlookup.checker.evidence import Evidence
from softlookup.checker.fitting import fit_factor
from softlookup.checker.rotations import (
    Rotation,
    best_rotation,
    likely_rotations,
    rotated_scores,
    says_rotation,
)
from softlookup.terms import Case

HINTS = ("norm", "cosine", "rsqrt")


FORMS = ("each head", "each head, centred", "all heads together")


@dataclass(frozen=True)
class Normalised:
    """What is normalised, the temperature, and how positions turn what was normalised."""

    form: str
    factor: float = 1.0
    rotation: Rotation | None = None


def VARIANTS(evidence: Evidence) -> Iterator[Normalised]:  # noqa: N802
    """What is normalised, the temperature that the answers show, and the rotation."""
    for guess in (*map(Normalised, FORMS), *_rotated(evidence)):
        factor = fit_factor(evidence, "plain", lambda s, case, factor: s * factor, partial(_product, guess))
        if factor is not None:
            yield replace(guess, factor=factor)
            return


def score(q: Tensor, k: Tensor, case: Case, variant: Normalised) -> Tensor:
    return _product(variant, q, k, case)


def scale(scores: Tensor, case: Case, variant: Normalised) -> Tensor:
    return scores * variant.factor


def _rotated(evidence: Evidence) -> Iterator[Normalised]:
    """The rotation of each form, found under the factor that a root mean square of 1 leads to, and others."""
    if not says_rotation(evidence.sketch):
        return
    case = evidence.observations[0].case
    d, likely = case.q.shape[-1], likely_rotations(evidence)
    for form in FORMS:
        heads = case.q.shape[1] if form == FORMS[2] else 1  # keys have as many, once they are repeated
        for factor in (heads * math.sqrt(d), 1.0, 10.0):
            turn = partial(_scaled_product, Normalised(form, factor))
            if (rotation := best_rotation(evidence, likely, turn)) is not None:
                yield Normalised(form, factor, rotation)
                return


def _scaled_product(of: Normalised, q: Tensor, k: Tensor, case: Case, rotation: Rotation) -> Tensor:
    """Products times the factor, once the step `scale` has divided them by sqrt(d_head)."""
    by = 1 / math.sqrt(q.shape[-1]) if case.scale is None else case.scale
    return _product(replace(of, rotation=rotation), q, k, case) * (of.factor / by)


def _product(of: Normalised, q: Tensor, k: Tensor, case: Case) -> Tensor:
    q, k = _unit(q, of.form), _unit(k, of.form)
    return q @ k.transpose(-2, -1) if of.rotation is None else rotated_scores(q, k, case, of.rotation)


def _unit(x: Tensor, form: str) -> Tensor:
    """[B, H, T, d] of length 1: over the features of a head, or over those of all heads."""
    if form == FORMS[1]:
        x = x - x.mean(dim=-1, keepdim=True)
    if form != FORMS[2]:
        return torch.nn.functional.normalize(x, dim=-1)
    tokens = x.transpose(-3, -2)  # [B, T, H, d]
    return torch.nn.functional.normalize(tokens.flatten(-2), dim=-1).view(tokens.shape).transpose(-3, -2)
