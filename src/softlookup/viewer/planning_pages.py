"""What fits into a page: which maps are held whole, how coarse the others become, which windows are exact."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from softlookup.statistics.pooled import bucket_widths
from softlookup.terms import SoftlookupError
from softlookup.viewer.map_layers import MapLayer

_BYTES_PER_CELL = 4 / 3 + 0.02  # base64 of a byte that nothing shrinks
_MOST_BUCKETS, _FEWEST_BUCKETS = 256, 16
_WIDEST, _NARROWEST = 128, 16  # of windows
_LOOKED_AT = 1 << 25  # weights that are computed to pool all layers, and for all windows: a second or two
_FEWEST_QUERIES, _FEWEST_ROWS = 32, 24  # that are looked at of a layer, and of a window
_FINE = 1_000_000  # bytes of a page whose weights are held as finely as 8 bits can


@dataclass(frozen=True)
class Plan:
    """How the maps of a page are held.

    whole: as they are;  buckets: else, how many on a side a map is pooled into
    windows: first query and first key of windows that the user asked for; None: start, middle and end
    window: how many queries and keys a window has
    share: of the queries of a pooled layer that are looked at;  fine: weights are held as finely as they can
    """

    whole: bool
    buckets: int
    windows: Sequence[tuple[int, int]] | None
    window: tuple[int, int]
    share: float
    fine: bool

    def windows_of(self, layer: MapLayer) -> list[tuple[range, range]]:
        """Return queries and keys of each exact window of a pooled layer.

        Raises: SoftlookupError when a window of the user begins outside.
        """
        rows, columns = min(self.window[0], layer.q_len), min(self.window[1], layer.k_len)
        last_q, last_k = layer.q_len - rows, layer.k_len - columns
        middle = last_q // 2
        beside = last_k // 2 if layer.kind == "cross" else middle + rows - columns + layer.k_len - layer.q_len
        starts = (
            [(0, 0), (middle, max(0, beside)), (last_q, last_k)] if self.windows is None else self.windows
        )
        for query, key in starts:
            if not (0 <= query < layer.q_len and 0 <= key < layer.k_len):
                raise SoftlookupError(
                    f"view: no window of {layer.name or 'the model'} begins at query {query} and key {key}.",
                    expected=f"a query below {layer.q_len} and a key below {layer.k_len}",
                    got=f"({query}, {key})",
                )
        corners = dict.fromkeys((min(int(query), last_q), min(int(key), last_k)) for query, key in starts)
        return [(range(query, query + rows), range(key, key + columns)) for query, key in corners]

    def buckets_of(self, layer: MapLayer) -> tuple[int, int] | None:
        """Return into how many buckets queries and keys are pooled at most; None: the map is held whole."""
        if self.whole or max(layer.q_len, layer.k_len) <= self.buckets:
            return None
        return min(self.buckets, self._looked_at(layer)), self.buckets

    def queries_of(self, layer: MapLayer) -> Sequence[int]:
        """Return which queries are looked at: all of them, or as many of each bucket."""
        pooled = self.buckets_of(layer)
        if pooled is None or self._looked_at(layer) == layer.q_len:
            return range(layer.q_len)
        widths = bucket_widths(layer.q_len, pooled[0])
        return spread_queries(widths, self._looked_at(layer) // len(widths))

    def _looked_at(self, layer: MapLayer) -> int:
        return (
            layer.q_len
            if self.share >= 1
            else min(layer.q_len, max(_FEWEST_QUERIES, int(self.share * layer.q_len)))
        )


def spread_queries(widths: Sequence[int], each: int) -> list[int]:
    """Return so many queries of each bucket, spread evenly inside it; all of a bucket that has no more.

    >>> spread_queries((4, 4, 1), 2)
    [1, 3, 5, 7, 8]
    """
    found, start = [], 0
    for width in widths:
        some = min(each, width)
        found += [start + (2 * number + 1) * width // (2 * some) for number in range(some)]
        start += width
    return found


def plan_page(
    layers: Sequence[MapLayer], *, most_bytes: float, runs: int, windows: Sequence[tuple[int, int]] | None
) -> Plan:
    """Return how maps are held so that a page has at most so many bytes, whatever their numbers are.

    runs: 2 where differences are held beside the maps
    """
    room = most_bytes / _BYTES_PER_CELL / runs
    cells = sum(it.num_heads * it.q_len * it.k_len for it in layers)
    heads = sum(it.num_heads for it in layers)
    share = min(1.0, _LOOKED_AT / (cells * runs))
    fine = cells * runs * _BYTES_PER_CELL <= _FINE
    if cells <= 0.95 * room:  # the rest is for words and small pictures
        return Plan(True, 0, windows, (0, 0), share, fine)
    buckets = int(math.sqrt(0.6 * room / heads))
    if buckets < _FEWEST_BUCKETS:
        raise SoftlookupError(
            f"view: {heads} heads do not fit into {most_bytes / 1e6:g} MB.",
            expected=f"at least {heads * _FEWEST_BUCKETS**2 * runs * _BYTES_PER_CELL / 0.6e6:.1f} MB",
            got=f"max_mb={most_bytes / 1e6:g}",
            hint="fewer layers: layers=..., or a larger max_mb",
        )
    number = 3 if windows is None else max(1, len(windows))
    columns = _between(math.sqrt(0.3 * room / heads / number), _NARROWEST, _WIDEST)
    a_query = (
        number * runs * sum(it.num_heads * it.k_len for it in layers)
    )  # weights of a query of each window
    window = (_between(_LOOKED_AT / a_query, min(columns, _FEWEST_ROWS), columns), columns)
    return Plan(False, min(_MOST_BUCKETS, buckets), windows, window, share, fine)


def _between(number: float, least: int, most: int) -> int:
    return max(least, min(most, int(number)))
