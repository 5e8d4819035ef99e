"""A step of the watch as plain JSON values and one safetensors blob, and back, bit for bit.

The tensors of a record are few: moments and counts are stacked, and their names stand in the JSON. Rows of
single queries are not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from softlookup.live.record import Alarm, Call, Record
from softlookup.statistics.moments import Moments
from softlookup.statistics.pooled import PooledMap
from softlookup.statistics.summary import Statistics

_FLOATS = ("mean", "m2", "low", "high")  # of moments; beside them stands count, which is an integer
_IN_TENSORS = {"call", "statistics"}  # fields of a record that are no plain values


def encode_step(records: Sequence[Record], alarms: Sequence[Alarm]) -> tuple[dict[str, Any], bytes]:
    """Return records and alarms of a step as JSON values, and their tensors as one safetensors blob."""
    tensors: dict[str, Tensor] = {}
    lines = []
    for number, record in enumerate(records):
        stacked, names = take_apart(record.statistics)
        tensors |= {f"{number}.{name}": tensor for name, tensor in stacked.items()}
        plain = {it.name: getattr(record, it.name) for it in fields(record) if it.name not in _IN_TENSORS}
        lines.append({"call": asdict(record.call), **plain, "statistics": names})
    entry = {"records": lines, "alarms": [_plain_alarm(alarm) for alarm in alarms]}
    return entry, save(tensors) if tensors else b""


def decode_step(entry: dict[str, Any], blob: bytes) -> tuple[list[Record], list[Alarm]]:
    """Return the records and alarms of what ``encode_step`` made."""
    tensors = load(blob) if blob else {}
    records = []
    for number, line in enumerate(entry["records"]):
        start = f"{number}."
        own = {name.removeprefix(start): it for name, it in tensors.items() if name.startswith(start)}
        plain = {name: value for name, value in line.items() if name not in _IN_TENSORS}
        statistics = put_together(own, line["statistics"])
        records.append(Record(Call(**line["call"]), statistics, **plain))
    return records, [Alarm(**{**it, "value": float(it["value"])}) for it in entry["alarms"]]


def take_apart(statistics: Statistics) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return statistics as a few stacked tensors, copies on the CPU, and the names of what lies in them.

    moments: [names, 4, B, H] mean, m2, low and high;  moment_counts: int64 [names, B, H]
    counts: int64 [names, B, H];  pooled: [B, H, query buckets, key buckets], where there is a map
    """
    moments, counts, pooled = statistics.moments, statistics.counts, statistics.pooled
    tensors = {}
    if moments:
        parts = [torch.stack([getattr(it, part) for part in _FLOATS]) for it in moments.values()]
        tensors["moments"] = torch.stack(parts)
        tensors["moment_counts"] = torch.stack([it.count for it in moments.values()])
    if counts:
        tensors["counts"] = torch.stack(list(counts.values()))
    names: dict[str, Any] = {"steps": statistics.steps, "moments": list(moments), "counts": list(counts)}
    if pooled is not None:
        tensors["pooled"] = pooled.sums.clone(memory_format=torch.contiguous_format)
        names["pooled"] = {
            "query_widths": list(pooled.query_widths),
            "key_widths": list(pooled.key_widths),
            "maps": pooled.maps,
        }
    return {name: tensor.detach().cpu() for name, tensor in tensors.items()}, names


def put_together(tensors: dict[str, Tensor], names: dict[str, Any]) -> Statistics:
    """Return the statistics that ``take_apart`` was given, without rows.

    >>> from softlookup import observe
    >>> _, statistics = observe(*torch.randn(3, 1, 2, 8, 4))
    >>> again = put_together(*take_apart(statistics))
    >>> torch.equal(again.entropy_nats, statistics.entropy_nats)
    True
    """
    moments = {
        name: Moments(tensors["moment_counts"][row], *tensors["moments"][row])
        for row, name in enumerate(names["moments"])
    }
    counts = {name: tensors["counts"][row] for row, name in enumerate(names["counts"])}
    pooled = None
    if "pooled" in names:
        grid = names["pooled"]
        widths = tuple(grid["query_widths"]), tuple(grid["key_widths"])
        pooled = PooledMap(tensors["pooled"], *widths, maps=grid["maps"])
    return Statistics(moments, counts, pooled, steps=names["steps"])


def _plain_alarm(alarm: Alarm) -> dict[str, Any]:
    """JSON cannot write NaN and inf as numbers; a number written by ``repr`` reads back to the same bits."""
    return {**asdict(alarm), "value": repr(float(alarm.value))}
