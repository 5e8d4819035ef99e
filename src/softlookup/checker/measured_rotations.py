"""Rotations (RoPE) that follow no known table: how fast each pair of features turns is solved for.

A score is a sum over pairs of features, each linear in the cosine and sine of its angle. Outputs give shares
where there are no more keys than features, shares give scores up to one number a row, and the scores of one
distance give its cosines and sines. It is a rotation where cosine and sine of every pair keep one length, at
every distance, and the angle grows with the distance. That holds for any rescaling of the rates
(interpolated, NTK, YaRN, by wavelength).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence, Observation
from softlookup.checker.rotations import PAIRINGS, Pairing, Rotation, in_two_rows, positions_of
from softlookup.terms import Case

#: Answers without masks and without scores so large that shares vanish.
_SHORT = ("plain", "square", "zero-queries")
#: The longest first: small errors of a rate show there.
_LONG = ("full-length", "long-square", "long")
#: Distances that are solved for: 0, 1 and 2 positions.
_DISTANCES = 3
#: Smaller shares say too little about their score.
_LEAST_SHARE = 1e-4
#: Largest error of a cosine, a length or a score, solved for from float32.
_EXACT = 2e-2
#: Larger gains than YaRN's are another bug: a scale that is missing.
_LARGEST_GAIN = 1.6
_SAYS_GAIN = re.compile(r"yarn|mscale|(attention|attn)_(factor|scaling)", re.I)


def measured_rotation(evidence: Evidence) -> Rotation | None:
    """Return the rotation that the answers show, whatever its rates; None where they show none."""
    for form in _forms(evidence):
        found = _solved(evidence, form)
        if found is not None:
            sharpened = _sharpened(evidence, found)
            says_gain = evidence.sketch is not None and _SAYS_GAIN.search(evidence.sketch.source)
            allowed = says_gain and 1 / _LARGEST_GAIN < sharpened.gain < _LARGEST_GAIN
            return sharpened if allowed else replace(sharpened, gain=1.0)
    return None


def _forms(evidence: Evidence) -> Iterator[Rotation]:
    """Yield rotations without rates: which features turn together, by position or by row and column."""
    image = "Y X" in (evidence.contract.layout or "")
    pairings: tuple[Pairing, ...] = (*PAIRINGS, "halves of each half") if image else PAIRINGS
    d = evidence.observations[0].case.q.shape[-1]
    for pairing, part in product(pairings, (1.0, 0.5, 0.25)):
        if int(d * part) % (2 if pairing in PAIRINGS else 4):
            continue
        yield Rotation(pairing, 0.0, part)
        if image:
            yield Rotation(pairing, 0.0, part, by_row=(0.0,))


def _solved(evidence: Evidence, form: Rotation) -> Rotation | None:
    """Solve for cosine and sine of each pair at the smallest distances; None where they are no rotation."""
    rows, sums = [], []
    for name in _SHORT:
        seen = evidence.probe(name)
        if seen is not None and seen.output is not None and seen.case.v.shape[-2] <= seen.output.shape[-1]:
            for row, total in _equations(seen, form):
                rows.append(row)
                sums.append(total)
    if not rows:
        return None
    design, wanted = torch.cat(rows), torch.cat(sums)
    if not bool(wanted.isfinite().all()):
        return None
    solution = torch.linalg.lstsq(design, wanted, driver="gelsd").solution
    if float((design @ solution - wanted).abs().max()) > _EXACT:
        return None
    return _as_rotation(solution.view(_DISTANCES, -1, 2), form)


def _equations(seen: Observation, form: Rotation) -> Iterator[tuple[Tensor, Tensor]]:
    """Per query: rows [n, 3 * pairs * 2] and what they sum to [n], less the mean over its keys."""
    case = seen.case.double()
    assert seen.output is not None
    allowed = STEPS.visible(case)
    k, v = (STEPS.repeat_kv_heads(x, case) for x in (case.k, case.v))
    weights = seen.output.double() @ torch.linalg.pinv(v)  # [B, H, T_q, T_k]
    terms, rest = _pairwise(case.q, k, form)
    factor = float(STEPS.scale(torch.ones((), dtype=torch.float64), case))
    scores = weights.clamp_min(1e-30).log() / factor - rest  # up to one number a row
    which, sign = _distances(case, form)
    terms = torch.stack([terms[..., 0], terms[..., 1] * sign[..., None]], dim=-1)
    usable = (weights > _LEAST_SHARE) & (which >= 0) & seen.real_rows[..., None]
    usable = usable if allowed is None else usable & allowed
    at = torch.nn.functional.one_hot(which.clamp_min(0), _DISTANCES).double()  # [T_q, T_k, 3]
    for b, h, i in usable.sum(-1).gt(1).nonzero().tolist():
        keys = usable[b, h, i].nonzero().flatten()
        row = (at[i, keys][:, :, None, None] * terms[b, h, i, keys][:, None]).flatten(1)
        total = scores[b, h, i, keys]
        yield row - row.mean(0), total - total.mean()


def _distances(case: Case, form: Rotation) -> tuple[Tensor, Tensor]:
    """[T_q, T_k]: which of the distances lies between query and key, -1 for another; and its sign.

    0, 1 and 2 positions; in an image none, one column and one row.
    """
    of_queries, of_keys = positions_of(case)
    if not form.by_row:
        back = of_queries[:, None] - of_keys
        return back.abs().where(back.abs() < _DISTANCES, -1), back.sign()
    (rows, columns), (key_rows, key_columns) = in_two_rows(of_queries), in_two_rows(of_keys)
    down, right = rows[:, None] - key_rows, columns[:, None] - key_columns
    which = torch.where(down == 0, right.abs(), 2)  # in two rows nothing is farther than one
    other = ((down == 0) & (right.abs() > 1)) | ((down != 0) & (right != 0))
    return which.masked_fill(other, -1), torch.where(down == 0, right.sign(), down.sign())


def _score_with(numbers: Tensor, q: Tensor, k: Tensor, case: Case, form: Rotation) -> Tensor:
    """[B, H, T_q, T_k]: scores under these rates and this gain, which may be differentiated."""
    terms, rest = _pairwise(q, k, form)
    of_queries, of_keys = positions_of(case)
    if form.by_row:
        rates, by_row = numbers[:-1].chunk(2)
        (rows, columns), (key_rows, key_columns) = in_two_rows(of_queries), in_two_rows(of_keys)
        angles = (columns[:, None] - key_columns)[..., None] * rates
        angles = angles + (rows[:, None] - key_rows)[..., None] * by_row
    else:
        angles = (of_queries[:, None] - of_keys)[..., None] * numbers[:-1]
    table = torch.stack([angles.cos(), angles.sin()], dim=-1) * numbers[-1].square()
    return (terms * table).sum(dim=(-2, -1)) + rest


def _pairwise(q: Tensor, k: Tensor, form: Rotation) -> tuple[Tensor, Tensor]:
    """[B, H, T_q, T_k, pairs, 2], factors of cosine and sine, and what does not turn."""
    width = int(q.shape[-1] * form.part) // 2 * 2
    (q1, q2), (k1, k2) = (_in_pairs(x[..., :width], form.pairing) for x in (q, k))
    q1, q2, k1, k2 = q1[..., :, None, :], q2[..., :, None, :], k1[..., None, :, :], k2[..., None, :, :]
    terms = torch.stack([q1 * k1 + q2 * k2, q1 * k2 - q2 * k1], dim=-1)
    return terms, q[..., width:] @ k[..., width:].transpose(-2, -1)


def _in_pairs(x: Tensor, pairing: Pairing) -> tuple[Tensor, Tensor]:
    """[..., width] -> the first and the second features of the pairs, each [..., width / 2]."""
    if pairing == "neighbours":
        return x[..., 0::2], x[..., 1::2]
    if pairing == "halves":
        first, second = x.chunk(2, dim=-1)
        return first, second
    a, b, c, d = x.chunk(4, dim=-1)
    return torch.cat([a, c], dim=-1), torch.cat([b, d], dim=-1)


def _as_rotation(solution: Tensor, form: Rotation) -> Rotation | None:
    """[3, pairs, 2]: cosine and sine at each distance -> the rotation; None where it is none.

    Every cosine and sine have the length of the squared gain, and at no distance every sine is 0.
    """
    cos, sin = solution.unbind(-1)
    lengths = (cos.square() + sin.square()).sqrt()  # [3, pairs]
    gain = float(lengths.mean())
    if (
        not gain
        or float((lengths / gain - 1).abs().max()) > _EXACT
        or float(sin[0].abs().max()) > _EXACT * gain
    ):
        return None
    first, second = (torch.atan2(sin[n], cos[n]) for n in (1, 2))
    found = replace(form, rates=tuple(first.tolist()), gain=gain**0.5)
    if form.by_row:
        return replace(found, by_row=tuple(second.tolist())) if float(second.abs().max()) > 1e-3 else None
    turned_on = torch.remainder(second - 2 * first + torch.pi, 2 * torch.pi) - torch.pi
    if float(turned_on.abs().max()) > 4 * _EXACT or float(first.abs().max()) < 1e-3:
        return None
    return found


def _sharpened(evidence: Evidence, rotation: Rotation) -> Rotation:
    """Return the rotation with the rates and gain that come nearest to the longest answer."""
    for seen in reversed(long_answers(evidence)):  # the shortest first: angles grow with the length
        rotation = _fitted(seen, rotation)
    return rotation


def long_answers(evidence: Evidence) -> list[Observation]:
    """Return the answers to the longest questions, the longest first."""
    found = [seen for name in _LONG for seen in evidence.probes(name) if seen.probe == name]
    return [seen for seen in found if seen.output is not None and bool(seen.output.isfinite().all())]


def _fitted(seen: Observation, rotation: Rotation) -> Rotation:
    case, rows = seen.case.double(), seen.real_rows
    assert seen.output is not None
    theirs = seen.output.double()[rows].flatten()

    def off(numbers: Tensor) -> Tensor:
        steps = STEPS.but(score=lambda q, k, case: _score_with(numbers, q, k, case, rotation))
        return steps(case)[0][rows].flatten() - theirs

    numbers = torch.tensor([*rotation.rates, *rotation.by_row, rotation.gain], dtype=torch.float64)
    before = float(off(numbers).square().sum())
    for _ in range(8):
        units = torch.eye(len(numbers), dtype=torch.float64)
        slopes = torch.stack([torch.func.jvp(off, (numbers,), (unit,))[1] for unit in units], dim=1)
        step = torch.linalg.lstsq(slopes, -off(numbers)[:, None], driver="gelsd").solution[:, 0]
        after = float(off(numbers + step).square().sum())
        if not after < before:
            break
        numbers, before = numbers + step, after
    *rates, gain = numbers.tolist()
    pairs = len(rotation.rates)
    return replace(rotation, rates=tuple(rates[:pairs]), by_row=tuple(rates[pairs:]), gain=gain)
