"""A mask as cells that can be drawn: of a long one, blocks; a few rows at a time, never the whole tensor."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from softlookup.masks import Given, Mask
from softlookup.report.mask_panels import EMPTY, FULL, PARTLY, MaskPanel, MaskPicture
from softlookup.terms import SoftlookupError

MOST_CELLS = 48  # along an axis
MOST_PANELS = 6
_AT_ONCE = 1 << 24  # pairs of a query and a key that are asked together
_MOST_PAIRS = 1 << 34  # half a minute or so


def mask_picture(mask: Mask, q_len: int, k_len: int, heading: str = "") -> MaskPicture:
    """Return the panels of the first samples and heads.

    Raises: SoftlookupError when the lengths do not fit the mask, or there are too many pairs to look at.

    >>> from softlookup.masks import causal
    >>> picture = mask_picture(causal(), 96, 96)
    >>> picture.block, picture.panels[0].rows[1][:3]
    ((2, 2), '1+.')
    """
    mask._check(q_len, k_len)
    batch, heads = mask.sizes["B"] or 1, mask.sizes["H"] or 1
    block = _block(q_len), _block(k_len)
    drawn = list(itertools.islice(itertools.product(range(batch), range(heads)), MOST_PANELS))
    looked = _first_samples(mask, drawn[-1][0] + 1)
    refuse_too_many(looked, q_len, k_len)
    strips = [
        _strip(looked, range(start, min(start + block[0], q_len)), (q_len, k_len), block[1])
        for start in range(0, q_len, block[0])
    ]
    panels = []
    for b, h in drawn:
        some, every, blind = (torch.stack([strip[n][b, h] for strip in strips]) for n in range(3))
        rows = tuple(
            "".join(FULL if full else PARTLY if partly else EMPTY for full, partly in zip(*row, strict=True))
            for row in zip(every.tolist(), some.tolist(), strict=True)
        )
        panels.append(MaskPanel(_title(mask, b, h), rows, frozenset(blind.nonzero()[:, 0].tolist())))
    return MaskPicture(heading, tuple(panels), q_len, k_len, block, batch * heads - len(drawn))


def refuse_too_many(mask: Mask, q_len: int, k_len: int) -> None:
    """Refuse to look at every pair where that takes too long."""
    pairs = (mask.sizes["B"] or 1) * (mask.sizes["H"] or 1) * q_len * k_len
    if pairs > _MOST_PAIRS:
        raise SoftlookupError(
            "mask: this looks at every pair of a query and a key.",
            expected=f"at most {_MOST_PAIRS:,} pairs",
            got=f"{pairs:,}",
            hint="smaller lengths: what a mask hides mostly shows there too",
        )


def _block(length: int) -> int:
    """Return the smallest power of two that needs no more cells than can be drawn."""
    block = 1
    while -(-length // block) > MOST_CELLS:
        block *= 2
    return block


def _strip(mask: Mask, queries: range, lengths: tuple[int, int], block: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return for a row of cells: some visible [B, H, cells], all visible, and some query blind [B, H]."""
    q_len, k_len = lengths
    layers = (mask.sizes["B"] or 1) * (mask.sizes["H"] or 1)
    at_once = max(1, _AT_ONCE // (layers * k_len))
    found = []
    for start in range(queries.start, queries.stop, at_once):
        i = torch.arange(start, min(start + at_once, queries.stop), device=mask._home())
        rows = mask._answer(i, q_len, k_len).cpu()  # [B, H, q, T_k]
        blocks = torch.split(rows, block, dim=-1)
        some = torch.stack([it.any(dim=-1) for it in blocks], dim=-1)  # [B, H, q, cells]
        every = torch.stack([it.all(dim=-1) for it in blocks], dim=-1)
        found.append((some.any(dim=2), every.all(dim=2), ~some.any(dim=-1).all(dim=2)))
    some, every, blind = (torch.stack(pieces) for pieces in zip(*found, strict=True))
    return some.any(dim=0), every.all(dim=0), blind.any(dim=0)


def _first_samples(mask: Mask, samples: int) -> Mask:
    """Return what has to be looked at: of a tensor the samples that are drawn."""
    return Given(mask.allowed_mask[:samples]) if isinstance(mask, Given) else mask


def _title(mask: Mask, batch: int, head: int) -> str:
    words = [f"sample {batch}"] * ("B" in mask.axes) + [f"head {head}"] * ("H" in mask.axes)
    return ", ".join(words)
