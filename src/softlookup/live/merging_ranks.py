"""What several ranks measured, as that of one: samples together, heads that ranks share side by side."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import torch
from safetensors.torch import load, save
from torch import Tensor

from softlookup.live.heads_by_rank import Share
from softlookup.live.history import merge_all
from softlookup.live.step_encoding import put_together, take_apart
from softlookup.statistics.moments import Moments
from softlookup.statistics.summary import Statistics

_AT_ONCE = 16  # calls of a layer that are added together: one by one takes several times as long


class Part(NamedTuple):
    """What a rank measured of a layer: of its share of the heads, [1, H]."""

    share: Share
    statistics: Statistics


class Gathered:
    """Parts of one rank, call by call, summed up by layer so that they stay few."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[Share, list[Statistics]]] = {}

    def add(self, layer: str, part: Part) -> None:
        """Take a part in; a call with another number of heads than the first of its layer is left out."""
        _, many = self._parts.setdefault(layer, (part.share, []))
        if many and many[0].queries.shape[1] != part.statistics.queries.shape[1]:
            return
        many.append(part.statistics)
        if len(many) >= _AT_ONCE:
            many[:] = [merge_all(many)]

    def take(self) -> dict[str, Part]:
        """Return what there is by layer, and begin anew."""
        parts, self._parts = self._parts, {}
        return {layer: Part(share, merge_all(many)) for layer, (share, many) in parts.items()}


@dataclass(frozen=True, eq=False)
class Merged:
    """Layers in the order of the first rank that has them, and why others are not among them."""

    layers: dict[str, Statistics]
    left_out: dict[str, str]


def merge_ranks(ranks: Sequence[Mapping[str, Part]]) -> Merged:
    """Return the statistics [1, H] of each layer over all ranks; a rank may have none of it.

    Ranks with the same heads saw other samples. Of ranks with other heads of one layer, heads that no rank
    tells of have no queries. ``steps`` is that of the rank with the most.
    """
    merged = Merged({}, {})
    for layer in dict.fromkeys(layer for rank in ranks for layer in rank):
        parts = [rank[layer] for rank in ranks if layer in rank]
        why = _why_not(parts)
        if why:
            merged.left_out[layer] = why
        else:
            merged.layers[layer] = _one_layer(parts)
    return merged


def _why_not(parts: Sequence[Part]) -> str:
    for share, _ in parts:
        if share.unknown:
            return share.unknown
    if len({share.of for share, _ in parts}) > 1:
        return "ranks split its heads in different ways"
    heads: dict[int, set[int]] = defaultdict(set)
    for share, statistics in parts:
        heads[share.place].add(statistics.queries.shape[1])
    counts = next((sorted(it) for it in heads.values() if len(it) > 1), [])
    return f"ranks measured {' and '.join(map(str, counts))} heads of it" if counts else ""


def _one_layer(parts: Sequence[Part]) -> Statistics:
    by_place: dict[int, list[Statistics]] = defaultdict(list)
    for share, statistics in parts:
        by_place[share.place].append(statistics)
    merged = {place: merge_all(many) for place, many in by_place.items()}
    of = parts[0].share.of
    whole = merged[0] if of == 1 else _side_by_side([merged.get(place) for place in range(of)])
    return replace(whole, steps=max(part.statistics.steps for part in parts))


def _side_by_side(shares: Sequence[Statistics | None]) -> Statistics:
    """Statistics [1, H] of heads one after the other; None stands for heads of which nothing is known."""
    known = [it for it in shares if it is not None]
    silent = _nothing_like(known[0])
    every = [silent if it is None else it for it in shares]
    names = dict.fromkeys(name for it in known for name in it.moments)
    moments = {name: _joined([it.moments.get(name) or _no_numbers(it) for it in every]) for name in names}
    counts = {name: torch.cat([it.counts[name] for it in every], dim=1) for name in known[0].counts}
    return Statistics(moments, counts)


def _nothing_like(statistics: Statistics) -> Statistics:
    return Statistics({}, {name: torch.zeros_like(count) for name, count in statistics.counts.items()})


def _no_numbers(statistics: Statistics) -> Moments:
    return Moments.of(torch.empty(*statistics.queries.shape, 0))


def _joined(parts: Sequence[Moments]) -> Moments:
    return Moments(*(torch.cat([getattr(it, name.name) for it in parts], dim=1) for name in fields(Moments)))


def encode_parts(parts: Mapping[str, Part]) -> bytes:
    """Return parts by layer as one safetensors blob, so that nothing a rank reads can run code."""
    tensors: dict[str, Tensor] = {}
    lines = []
    for number, (layer, part) in enumerate(parts.items()):
        stacked, names = take_apart(part.statistics)
        tensors |= {f"{number}.{name}": it for name, it in stacked.items()}
        lines.append({"layer": layer, "share": list(part.share), "statistics": names})
    tensors["lines"] = torch.tensor(list(json.dumps(lines).encode()), dtype=torch.uint8)
    return save(tensors)


def decode_parts(blob: bytes) -> dict[str, Part]:
    """Return what ``encode_parts`` was given.

    >>> decode_parts(encode_parts({}))
    {}
    """
    tensors = load(blob)
    parts = {}
    for number, line in enumerate(json.loads(bytes(tensors.pop("lines").tolist()))):
        start = f"{number}."
        own = {name.removeprefix(start): it for name, it in tensors.items() if name.startswith(start)}
        parts[line["layer"]] = Part(Share(*line["share"]), put_together(own, line["statistics"]))
    return parts
