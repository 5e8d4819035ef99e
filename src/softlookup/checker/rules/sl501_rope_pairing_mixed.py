"""Rotary positions mix two pairings: features turn in halves by the angles of neighbours, or the reverse.

Missed because: shapes fit, position 0 is right, and training from scratch lowers the loss all the same.

Training: scores depend on both positions and not on the distance alone, lengths of vectors change: longer
inputs than those of training fail, and loaded weights give noise.

Ask: which two features of a vector turn together in each of the two places?

Fix: one pairing for both: `cat((freqs, freqs), -1)` with halves (`rotate_half`), `repeat_interleave(2, -1)`
with neighbours.

Seen in: https://github.com/raiyanyahya/how-to-train-your-gpt/issues/6
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from softlookup.attention import score as dot_products
from softlookup.checker.evidence import Evidence
from softlookup.checker.rotations import (
    Pairing,
    Rotation,
    best_rotation,
    likely_rotations,
    positions_of,
    says_rotation,
    turned,
)
from softlookup.terms import Case

LINE = ("reordered", "angles", "rotate")
SHAPES = ("angles of the other pairing", "keys in the other order", "keys in the other pairing")
_OTHER: dict[Pairing, Pairing] = {"halves": "neighbours", "neighbours": "halves"}


def VARIANTS(evidence: Evidence) -> Iterator[tuple[str, Rotation]]:  # noqa: N802
    """The shapes that fit the first answer: asked only where names or source speak of rotations."""
    if not says_rotation(evidence.sketch):
        return
    for shape in SHAPES:
        best = best_rotation(evidence, likely_rotations(evidence), partial(_score, shape))
        if best is not None:
            yield shape, best


def score(q: Tensor, k: Tensor, case: Case, variant: tuple[str, Rotation]) -> Tensor:
    return _score(variant[0], q, k, case, variant[1])


def _score(shape: str, q: Tensor, k: Tensor, case: Case, rotation: Rotation) -> Tensor:
    of_queries, of_keys = positions_of(case)
    other = _OTHER[rotation.pairing]
    if shape == SHAPES[0]:
        q, k = turned(q, rotation, of_queries, table=other), turned(k, rotation, of_keys, table=other)
    elif shape == SHAPES[1]:
        q, k = turned(q, rotation, of_queries), turned(_reordered(k, rotation), rotation, of_keys)
    else:
        q, k = turned(q, rotation, of_queries), turned(k, replace(rotation, pairing=other), of_keys)
    return dot_products(q, k, case)


def _reordered(k: Tensor, rotation: Rotation) -> Tensor:
    """Features that lie as for the other pairing, in the order that this one wants."""
    width = int(k.shape[-1] * rotation.part) // 2 * 2
    rows = (2, -1) if rotation.pairing == "neighbours" else (-1, 2)
    pairs = k[..., :width].reshape(*k.shape[:-1], *rows)
    return torch.cat([pairs.transpose(-2, -1).flatten(-2), k[..., width:]], dim=-1)
