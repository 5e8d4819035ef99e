"""Which tokens a padding mask hides, seen from outside: hidden tokens are changed, and rows move or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from softlookup.checker.calls import Target, Value
from softlookup.checker.find_masks import spellings_of
from softlookup.checker.perturbing import Perturbed
from softlookup.checker.plan import Plan
from softlookup.checker.reading import Reading
from softlookup.checker.spelling import MaskSpelling
from softlookup.checker.ways import Way
from softlookup.terms import Case


@dataclass(frozen=True)
class Hiding:
    """One spelling of a padding mask, and what it did."""

    spelling: MaskSpelling
    way: Way
    masked: Tensor  # [B, rows, features] with the mask
    leaks: bool  # hidden tokens move the rows of real ones
    ignored: bool  # it changes nothing at all
    inverted: bool  # tokens that are shown move no other row
    only_hidden_rows: bool  # it changes the rows of hidden tokens, and no others

    def written(self, hidden: Tensor) -> Tensor:
        """[B, T_k] True = hidden -> the mask as the module wants it."""
        mask = _written(self.spelling, self.way, hidden)
        assert mask is not None
        return mask


def hidden_tokens(way: Way, *, alike: bool = False) -> Tensor:
    """[B, T_k] bool: the last tokens of each sample; as many in each sample when they are ``alike``."""
    samples = torch.zeros(way.keys.batch) if alike else torch.arange(way.keys.batch) % 3
    return torch.arange(way.keys.count) >= (way.keys.count - 1 - samples)[:, None]


def hiding_of(target: Target, way: Way, reading: Reading) -> Hiding | None:
    """Return the spelling under which a stated mask hides what it says, else the likeliest that runs.

    None where the module has no mask of padding, or nothing says what True means in it.
    """
    found = [seen for spelling in _spellings(way, reading) if (seen := _tried(target, way, spelling))]
    right = [seen for seen in found if not seen.leaks]
    return next(iter(right or found), None)


def open_value(reading: Reading) -> bool | None:
    """Return what every element of a mask is that hides nothing; None when nobody says."""
    return None if reading.mask_kind is None else reading.mask_kind == "allowed"


def opened_masks(way: Way, reading: Reading) -> Iterator[dict[str, Value]]:
    """Yield the padding mask in every spelling, likely ones first."""
    for spelling in _spellings(way, reading):
        mask = _written(spelling, way, hidden_tokens(way, alike="B" not in spelling.axes))
        if mask is not None:
            yield {spelling.parameter: mask}


def _spellings(way: Way, reading: Reading) -> Iterator[MaskSpelling]:
    names = [name for name, role in way.roles.items() if role in {"mask", "lengths"}]
    if not names or (reading.mask_kind is None and way.roles[names[0]] == "mask"):
        return
    layout = "B T d" if "B" in way.x.layout.split() else "T d"
    plan = Plan(way.parameters, way.roles, layout=layout)
    yield from spellings_of(plan, names[0], reading)


def _written(spelling: MaskSpelling, way: Way, hidden: Tensor) -> Tensor | None:
    rows = way.rows or way.keys
    q = torch.zeros(way.x.batch, 1, rows.count, 1)
    k = torch.zeros(way.x.batch, 1, way.keys.count, 1)
    shared = bool((hidden == hidden[:1]).all()) and "B" not in spelling.axes
    allowed = ~hidden[:1] if shared else ~hidden
    return spelling.write(Case(q, k, k, allowed_mask=allowed[:, None, None]))


def _tried(target: Target, way: Way, spelling: MaskSpelling) -> Hiding | None:
    """Ask with a mask that hides something and with one that hides nothing; None when it does not run."""
    hidden = hidden_tokens(way, alike="B" not in spelling.axes)
    mask, open_mask = (_written(spelling, way, these) for these in (hidden, hidden & False))
    if mask is None or open_mask is None:
        return None
    seen, free = (Perturbed(target, way, {spelling.parameter: one}) for one in (mask, open_mask))
    if seen.first is None or free.first is None or not seen.first.isfinite().all():
        return None
    other = way.keys.random(7)
    tokens = seen.x if way.memory is None else seen.memory
    assert tokens is not None
    shown = (torch.arange(way.keys.count) == 0).expand(hidden.shape)
    moved = []
    for places in (hidden, shown):
        changed = torch.where(places[..., None], other, tokens)
        call = seen.asked(changed) if way.memory is None else seen.asked(memory=changed)
        moved.append(seen.moved(seen.first, seen.output(call)))
    changed_rows = seen.moved(seen.first, free.first)
    if moved[0] is None or moved[1] is None or changed_rows is None:
        return None
    own = way.rows is way.keys  # a token that is changed moves its own row, hidden or not
    real = ~hidden if own else torch.ones_like(moved[0])
    beside = ~shown & real if own else real
    return Hiding(
        spelling,
        way,
        masked=seen.first,
        leaks=bool((moved[0] & real).any()),
        ignored=not changed_rows.any(),
        inverted=not (moved[1] & beside).any(),
        only_hidden_rows=own and not (changed_rows & real).any(),
    )
