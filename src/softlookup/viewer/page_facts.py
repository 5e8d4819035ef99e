"""What the page holds of each layer: plain values for JSON, and packed numbers, one text for each head."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softlookup.viewer.head_measures import MEASURES
from softlookup.viewer.map_layers import MapLayer
from softlookup.viewer.measuring_maps import SMALL, Grid, Measured, blocks_of
from softlookup.viewer.packing import (
    Held,
    codes_of,
    codes_of_differences,
    differences_from,
    packed_bytes,
    plain,
    short,
    weights_from,
)
from softlookup.viewer.planning_pages import Plan


class Kind(NamedTuple):
    """How numbers become codes, and codes numbers."""

    encode: Callable[[Tensor, Tensor], Tensor]
    decode: Callable[[Tensor, Tensor], Tensor]


WEIGHTS = Kind(codes_of, weights_from)
GAPS = Kind(codes_of_differences, differences_from)
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
    tops = measured.small.amax(dim=(1, 2))
    if measured.pooled is None:
        said["maps"] = _hold_rows(held, f"{number}", _blocks_of(layer), (layer.q_len, layer.k_len), tops)
    else:
        said["maps"] = _hold(held, f"{number}", measured.pooled, WEIGHTS)
    if other is not None:
        said |= _hold_gaps(held, number, run, other)
    for at, window in enumerate(() if measured.pooled is None else plan.windows_of(layer)):
        said["windows"].append(_hold_window(held, f"{number}-w{at}", window, layer, other and other[0]))
    return said


def _hold_gaps(held: Held, number: int, ours: Run, theirs: Run) -> dict[str, Any]:
    """Pack how the weights of the other run differ: theirs less ours."""
    layer, other = ours[0], theirs[0]
    name = f"{number}-gap"
    if ours[1].pooled is not None and theirs[1].pooled is not None:
        small = theirs[1].small - ours[1].small
        maps = _hold(held, name, theirs[1].pooled - ours[1].pooled, GAPS)
    else:
        small = _small_gaps(layer, other)
        blocks = ((at, other.rows(at) - rows) for at, rows in _blocks_of(layer))
        tops = small.abs().amax(dim=(1, 2))
        maps = _hold_rows(held, name, blocks, (layer.q_len, layer.k_len), tops, GAPS)
    numbers = {name: plain(it) for name, it in theirs[1].numbers.items()}
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
        gaps, queries = other.rows(at) - rows, torch.tensor(at)
        grid.take_largest(up, gaps, queries)
        grid.take_largest(down, -gaps, queries)
    return torch.where(up >= down, up, -down)


def _blocks_of(layer: MapLayer) -> Iterator[tuple[Sequence[int], Tensor]]:
    for at in blocks_of(layer, range(layer.q_len)):
        yield at, layer.rows(at)


def _hold(held: Held, name: str, maps: Tensor, kind: Kind) -> dict[str, Any]:
    """Pack maps [H, a, b], a text for each head."""
    tops = maps.abs().amax(dim=(1, 2))
    return _hold_rows(held, name, [(range(maps.shape[1]), maps)], tuple(maps.shape[1:]), tops, kind)


def _hold_together(held: Held, name: str, maps: Tensor, kind: Kind) -> dict[str, Any]:
    """Pack maps [H, a, b] as one text: the small ones, which are all looked at first."""
    tops = maps.abs().amax(dim=(1, 2))
    held.packed[name] = packed_bytes(kind.encode(maps, tops[:, None, None]))
    return {"id": name, "shape": list(maps.shape[1:]), "tops": plain(tops)}


def _hold_rows(
    held: Held,
    name: str,
    blocks: Iterable[tuple[Sequence[int], Tensor]],
    shape: tuple[int, ...],
    tops: Tensor,
    kind: Kind = WEIGHTS,
) -> dict[str, Any]:
    """Pack maps that come some rows at a time, a text for each head.

    tops: [H] the largest size of a number in each
    """
    codes = torch.empty(len(tops), *shape, dtype=torch.uint8)
    error, top = 0.0, tops[:, None, None]
    for at, rows in blocks:
        codes[:, at[0] : at[-1] + 1] = some = kind.encode(rows, top)
        error = max(error, float(kind.decode(some, top).sub_(rows).abs_().max()))
    for head, it in enumerate(codes):
        held.packed[f"{name}-{head}"] = packed_bytes(it)
    return {"id": name, "shape": list(shape), "tops": plain(tops), "error": short(error)}


def _hold_window(
    held: Held, name: str, window: tuple[range, range], layer: MapLayer, other: MapLayer | None
) -> dict[str, Any]:
    """Pack the exact weights of some queries on some keys."""
    queries, keys = window
    rows = layer.rows(queries)[..., keys.start : keys.stop]
    allowed = layer.allowed(queries)
    seen = None if allowed is None else allowed[..., keys.start : keys.stop].to(torch.uint8) * 255
    said = {
        "q": [queries.start, queries.stop],
        "k": [keys.start, keys.stop],
        "maps": _hold(held, name, rows, WEIGHTS),
        "mask": _hold_mask(held, seen),
    }
    if other is not None:
        theirs = other.rows(queries)[..., keys.start : keys.stop]
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
