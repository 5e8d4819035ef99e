"""What the page holds of each layer: plain values for JSON, and packed numbers, one text for each head."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softlookup.viewer.head_measures import MEASURES
from softlookup.viewer.map_layers import MapLayer
from softlookup.viewer.measuring_maps import SMALL, Grid, Measured, blocks_of
from softlookup.viewer.packing import (
    GAPS,
    SMALL_STEP,
    WEIGHTS,
    Held,
    Scale,
    coarse_step,
    packed_bytes,
    plain,
    short,
    steps_of,
)
from softlookup.viewer.planning_pages import Plan

Run = tuple[MapLayer, Measured]


def hold_layer(held: Held, run: Run, plan: Plan, other: Run | None = None) -> dict[str, Any]:
    """Pack the maps of a layer, and return what the page has to know of it.

    other: the same layer of the run that is compared, of the same sizes
    """
    layer, measured = run
    number = len(held.facts["layers"])
    said: dict[str, Any] = {
        "name": layer.name,
        "kind": layer.kind,
        "heads": layer.num_heads,
        "qLen": layer.q_len,
        "kLen": layer.k_len,
        "form": "whole" if measured.pooled is None else "pooled",
        "grid": list(measured.grid),
        "looked": measured.queries,
        "blind": measured.blind,
        "numbers": {name: plain(it) for name, it in measured.numbers.items()},
        "chance": {name: plain(it) for name, it in measured.chance.items()},
        "mask": _hold_mask(held, measured.visible),
        "small": _hold_together(held, f"{number}-small", measured.small, WEIGHTS),
        "windows": [],
    }
    least = 0.0 if plan.fine else coarse_step(layer.k_len)
    if measured.pooled is None:
        sizes = Sizes((layer.q_len, layer.k_len), measured.small.amax(dim=(1, 2)), least)
        said["maps"] = _hold_rows(held, f"{number}", _blocks_of(layer), sizes)
    else:
        said["maps"] = _hold(held, f"{number}", measured.pooled, WEIGHTS)
    if other is not None:
        said |= _hold_gaps(held, f"{number}-gap", run, other, least)
    for at, window in enumerate(() if measured.pooled is None else plan.windows_of(layer)):
        said["windows"].append(_hold_window(held, f"{number}-w{at}", window, layer, other and other[0]))
    return said


def _hold_gaps(held: Held, name: str, ours: Run, theirs: Run, least: float) -> dict[str, Any]:
    """Pack how the weights of the other run differ: theirs less ours."""
    (layer, mine), (other, others) = ours, theirs
    if mine.pooled is not None and others.pooled is not None:
        small = others.small - mine.small
        maps = _hold(held, name, others.pooled - mine.pooled, GAPS)
    else:
        small = _small_gaps(layer, other)
        blocks = ((at, other.seen(at)[0] - rows) for at, rows in _blocks_of(layer))
        sizes = Sizes((layer.q_len, layer.k_len), small.abs().amax(dim=(1, 2)), least)
        maps = _hold_rows(held, name, blocks, sizes, GAPS)
    numbers = {name: plain(it) for name, it in others.numbers.items()}
    return {
        "gaps": maps,
        "smallGaps": _hold_together(held, f"{name}-small", small, GAPS),
        "otherNumbers": numbers,
    }


def _small_gaps(layer: MapLayer, other: MapLayer) -> Tensor:
    """Return [H, a, b]: of each block the difference that is largest in size, with its sign."""
    grid = Grid(layer, (SMALL, SMALL))
    up, down = (torch.zeros(layer.num_heads, *grid.shape) for _ in range(2))
    for at, rows in _blocks_of(layer):
        gaps, queries = other.seen(at)[0] - rows, torch.tensor(at)
        grid.take_largest(up, gaps, queries)
        grid.take_largest(down, -gaps, queries)
    return torch.where(up >= down, up, -down)


def _blocks_of(layer: MapLayer) -> Iterator[tuple[Sequence[int], Tensor]]:
    for at in blocks_of(layer, range(layer.q_len)):
        yield at, layer.seen(at)[0]


class Sizes(NamedTuple):
    """Of the maps of a layer: their shape, [H] the largest size of a number in each, the least step."""

    shape: tuple[int, int]
    tops: Tensor
    least: float = 0.0


def _hold(held: Held, name: str, maps: Tensor, scale: Scale) -> dict[str, Any]:
    """Pack maps [H, a, b], a text for each head."""
    sizes = Sizes((maps.shape[1], maps.shape[2]), maps.abs().amax(dim=(1, 2)))
    return _hold_rows(held, name, [(range(maps.shape[1]), maps)], sizes, scale)


def _hold_together(held: Held, name: str, maps: Tensor, scale: Scale) -> dict[str, Any]:
    """Pack small maps [H, a, b] as one text, since they are looked at first, and all of them."""
    tops = maps.abs().amax(dim=(1, 2))
    steps = steps_of(tops, scale.codes, SMALL_STEP)
    held.packed[name] = packed_bytes(scale.encode(maps, steps[:, None, None]))
    return {"id": name, "shape": list(maps.shape[1:]), "tops": plain(tops), "steps": plain(steps)}


def _hold_rows(
    held: Held,
    name: str,
    blocks: Iterable[tuple[Sequence[int], Tensor]],
    sizes: Sizes,
    scale: Scale = WEIGHTS,
) -> dict[str, Any]:
    """Pack maps that come some rows at a time, a text for each head; measure by how much they are off."""
    codes = torch.empty(len(sizes.tops), *sizes.shape, dtype=torch.uint8)
    # Steps as the page reads them, so that the error is that of the page.
    steps = torch.tensor(plain(steps_of(sizes.tops, scale.codes, sizes.least) * (1 + 1e-5)))
    error = 0.0
    for at, rows in blocks:
        some = scale.encode(rows, steps[:, None, None])
        error = max(error, float(scale.decode(some, steps[:, None, None]).sub_(rows).abs_().max()))
        codes[:, at[0] : at[-1] + 1] = some
    for head, it in enumerate(codes):
        held.packed[f"{name}-{head}"] = packed_bytes(it)
    return {
        "id": name,
        "shape": list(sizes.shape),
        "tops": plain(sizes.tops),
        "steps": plain(steps),
        "error": short(error),
    }


def _hold_window(
    held: Held, name: str, window: tuple[range, range], layer: MapLayer, other: MapLayer | None
) -> dict[str, Any]:
    """Pack the exact weights of some queries on some keys."""
    queries, keys = window
    weights, allowed = layer.seen(queries)
    rows = weights[..., keys.start : keys.stop]
    visible = None if allowed is None else allowed[..., keys.start : keys.stop].to(torch.uint8) * 255
    said = {
        "q": [queries.start, queries.stop],
        "k": [keys.start, keys.stop],
        "maps": _hold(held, name, rows, WEIGHTS),
        "mask": _hold_mask(held, visible),
    }
    if other is not None:
        theirs = other.seen(queries)[0][..., keys.start : keys.stop]
        said["gaps"] = _hold(held, f"{name}-gap", theirs - rows, GAPS)
    return said


def _hold_mask(held: Held, visible: Tensor | None) -> dict[str, Any] | None:
    """Pack a mask [H or 1, a, b] once, however many layers have it."""
    if visible is None or bool((visible == 255).all()):
        return None if visible is None else {"id": "", "heads": 1}
    text = packed_bytes(visible)
    known = {packed: name for name, packed in held.packed.items() if name.startswith("mask-")}
    name = known.get(text, f"mask-{len(known)}")
    held.packed[name] = text
    return {"id": name, "heads": len(visible)}


def measure_facts() -> list[dict[str, Any]]:
    """Return what heads can be searched for, in words."""
    return [{"name": it.name, "how": it.how, "aliases": list(it.aliases)} for it in MEASURES]
