"""Rotations of queries and keys by their positions (RoPE): which features turn together, and how fast.

Scores then depend on the distance alone, whatever the pairing and the rates are. Which they are is read from
settings and source and decided by the answers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.attention import score as dot_products
from softlookup.checker.calls import Sketch
from softlookup.checker.evidence import Evidence
from softlookup.terms import Case

Pairing = Literal["halves", "neighbours", "halves of each half"]

PAIRINGS: tuple[Pairing, ...] = ("halves", "neighbours")
#: Bases in use where nothing is said: most models, Llama 3, Qwen and Mixtral, images.
_BASES = (10_000.0, 500_000.0, 1_000_000.0, 100.0)
_SAYS_ROTATION = re.compile(r"rot(ary|at|_)|rope|freqs", re.I)
_BASE = re.compile(r"(rope_|rotary_|freqs?_)?(theta|base)", re.I)
_WIDTH = re.compile(r"(rotary|rope|rot)_?(emb_?)?(dim|ndims|size|width)|n_?rot", re.I)
_NUMBER = re.compile(r"(?<![\w.])(\d{2,8}(?:\.0*)?|\d(?:\.\d+)?e\d)(?![\w.])")


@dataclass(frozen=True)
class Rotation:
    """How a head turns: feature i by ``position * base ** (-2 i / width)``."""

    pairing: Pairing  # halves: feature i turns with i + width / 2; neighbours: 2 i with 2 i + 1
    base: float
    part: float = 1.0  # width / d_head: how much of a head turns, from its first feature
    backwards: bool = False
    rates: tuple[float, ...] = ()  # of each pair of features, where no base gives them
    by_row: tuple[float, ...] = ()  # tokens are pixels in two rows: rates a row; ``rates`` are those a column
    gain: float = 1.0  # on both tables, as YaRN's attention factor


#: Scores of rotated queries and keys: (q, k, case, rotation) -> [B, H, T_q, T_k].
Turn = Callable[[Tensor, Tensor, Case, Rotation], Tensor]


def turned(x: Tensor, rotation: Rotation, positions: Tensor, table: Pairing | None = None) -> Tensor:
    """Rotate x [..., T, d] by positions [T], or [..., T] broadcastable.

    table: the pairing that the angles are laid out for, when it is another than that of the features
    """
    width = int(x.shape[-1] * rotation.part) // 2 * 2
    part, rest = x[..., :width], x[..., width:]
    rates = torch.tensor(rotation.rates, dtype=torch.float64)
    if not rotation.rates:
        rates = rotation.base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = positions[..., None].double() * (-rates if rotation.backwards else rates)  # [..., T, width / 2]
    if rotation.by_row:
        rows, columns = in_two_rows(positions)
        by_row = torch.tensor(rotation.by_row, dtype=torch.float64)
        angles = columns[..., None] * rates + rows[..., None] * by_row
    spread = _spread(angles, table or rotation.pairing)
    cos, sin = ((rotation.gain * table).to(x.dtype) for table in (spread.cos(), spread.sin()))
    return torch.cat([part * cos + _partners(part, rotation.pairing) * sin, rest], dim=-1)


def in_two_rows(positions: Tensor) -> tuple[Tensor, Tensor]:
    """[T] -> the row and the column [T] of each pixel of an image that has two rows."""
    across = max(1, positions.shape[-1] // 2)
    return positions // across, positions % across


def _spread(angles: Tensor, pairing: Pairing) -> Tensor:
    """[..., pairs] -> [..., 2 * pairs]: each angle at both features of its pair."""
    if pairing == "neighbours":
        return angles.repeat_interleave(2, dim=-1)
    if pairing == "halves":
        return torch.cat([angles, angles], dim=-1)
    first, second = angles.chunk(2, dim=-1)
    return torch.cat([first, first, second, second], dim=-1)


def _partners(x: Tensor, pairing: Pairing) -> Tensor:
    """[..., width]: of each feature the one that turns into it, with its sign."""
    if pairing == "halves":
        first, second = x.chunk(2, dim=-1)
        return torch.cat([-second, first], dim=-1)
    if pairing == "halves of each half":
        return torch.cat([_partners(half, "halves") for half in x.chunk(2, dim=-1)], dim=-1)
    return torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)


def positions_of(case: Case) -> tuple[Tensor, Tensor]:
    """Return the positions of the queries [T_q] and of the keys [T_k]."""
    T_q, T_k = case.q.shape[-2], case.k.shape[-2]
    return torch.arange(T_q) + (T_k - T_q if case.causal == "bottom-right" else 0), torch.arange(T_k)


def rotated_scores(q: Tensor, k: Tensor, case: Case, rotation: Rotation) -> Tensor:
    """[B, H, T_q, T_k]: products of queries and keys, both rotated by their positions."""
    of_queries, of_keys = positions_of(case)
    return dot_products(turned(q, rotation, of_queries), turned(k, rotation, of_keys), case)


def says_rotation(sketch: Sketch | None) -> bool:
    """Say whether the words or the source of a target speak of rotated queries and keys."""
    if sketch is None:
        return False
    return _SAYS_ROTATION.search(f"{sketch.name} {sketch.doc} {sketch.source}") is not None


def likely_rotations(evidence: Evidence) -> list[Rotation]:
    """Return the rotations that settings, constructor and source speak of, then common ones."""
    d = evidence.observations[0].case.q.shape[-1]
    parts = [*(width / d for width in _stated(evidence.sketch, _WIDTH)), 1.0, 0.5, 0.25]
    parts = [part for part in dict.fromkeys(parts) if 2 / d <= part <= 1]
    bases = [*_stated(evidence.sketch, _BASE), *_numbers(evidence.sketch), *_BASES]
    choices = product(dict.fromkeys(bases), parts, (False, True), PAIRINGS)
    return [Rotation(pairing, base, part, backwards) for base, part, backwards, pairing in choices]


def _stated(sketch: Sketch | None, pattern: re.Pattern[str]) -> Iterator[float]:
    """Yield the numbers that a module holds, or its constructor takes, under such a name."""
    if sketch is None:
        return
    for path, value in sketch.settings.items():
        if pattern.fullmatch(path.rpartition(".")[2]) and value > 1:
            yield float(value)
    for parameter in sketch.init_parameters:
        if pattern.fullmatch(parameter.name) and _NUMBER.fullmatch(parameter.default):
            yield float(parameter.default)


def _numbers(sketch: Sketch | None) -> list[float]:
    """Return the numbers in the source that may be a base."""
    found = _NUMBER.findall("" if sketch is None else sketch.source.replace("_000", "000"))
    return [number for number in dict.fromkeys(map(float, found)) if 100 <= number <= 1e8][:4]


def best_rotation(evidence: Evidence, rotations: Iterable[Rotation], score: Turn) -> Rotation | None:
    """Return the rotation under which a score step predicts the first answer; None where none does."""
    errors = [(misfit(evidence, score, rotation), rotation) for rotation in rotations]
    error, best = min(errors, key=lambda pair: pair[0], default=(math.inf, None))
    return best if error < 1 else None


def measured_base(evidence: Evidence, score: Turn, rotation: Rotation) -> Rotation:
    """Return the rotation with the base, from 10 to 10 million, that comes nearest to the first answer."""

    def error(log: float) -> float:
        return misfit(evidence, score, replace(rotation, base=10**log))

    grid = [1 + n / 4 for n in range(25)]
    middle = min(grid, key=error)
    low, high = middle - 0.25, middle + 0.25
    for _ in range(40):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if error(a) < error(b) else (a, high)
    return replace(rotation, base=10 ** ((low + high) / 2))


def misfit(evidence: Evidence, score: Turn, rotation: Rotation, probe: str = "plain") -> float:
    """Return the largest error of a score step on one answer; rounding makes less than 1."""
    seen = evidence.probe(probe)
    if seen is None or seen.output is None:
        return math.inf
    case, rows = seen.case.double(), seen.real_rows
    steps = STEPS.but(score=lambda q, k, case: score(q, k, case, rotation))
    error = float((steps(case)[0][rows] - seen.output.double()[rows]).abs().amax())
    return math.inf if math.isnan(error) else error / (1e-3 if seen.output.dtype.itemsize >= 4 else 6e-2)
