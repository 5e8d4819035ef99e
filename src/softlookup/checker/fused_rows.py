"""Rows of several projections in one weight: the groups in which they may lie, and what words say of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise

#: "rows: q, then k, then v"
_ORDER = re.compile(
    r"(row|fused|pack|concat|stack|order|one (matrix|linear|weight)|side by side)[^.\n]{0,60}"
    r"\bq\w*\b[^.\n]{0,20}\bk\w*\b[^.\n]{0,20}\bv\w*\b"
)
#: Groups of rows that words may state: part by part; head by head.
_BY_PART = re.compile(
    r"\ball (the )?quer\w+[^.]{0,30}\ball (the )?keys|blocks of rows[^.]{0,40}\bquer\w+[^.]{0,20}\bkeys"
)
_BY_HEAD = re.compile(
    r"\bq\w*[^.\n]{0,20}\bk\w*[^.\n]{0,20}\bv\w* (of|for) (each|every|one) head"
    r"|(head by head|(of|for) (each|every) head)[^.\n]{0,20}\bq\w*[^.\n]{0,20}\bk\w*[^.\n]{0,20}\bv"
)


def order_told(words: str) -> bool:
    """Say whether words tell that queries, keys and values lie in this order."""
    return _ORDER.search(words) is not None


def told_groups(groups: list[list[list[int]]], words: str) -> list[list[list[int]]]:
    """Only the groups of rows that the words state, where they do: all queries first, or head by head."""
    together = [parts[0] == list(range(len(parts[0]))) for parts in groups]
    if _BY_PART.search(words):
        return [parts for parts, first in zip(groups, together, strict=True) if first]
    if _BY_HEAD.search(words):
        return [parts for parts, first in zip(groups, together, strict=True) if not first] or groups
    return groups


def thirds(rows: int, H: int, H_kv: int | None) -> Iterator[list[list[int]]]:
    """Rows of the three projections in one weight, in the order in which they lie there."""
    if H_kv in {None, H} and rows % (3 * H) == 0:
        yield from _equal_thirds(rows, H)
    for shared in [H_kv] if H_kv else [n for n in (1, 2, 3, 4) if n < H and H % n == 0]:
        yield from _grouped_thirds(rows, H, shared) if shared != H else ()


def _equal_thirds(rows: int, H: int) -> Iterator[list[list[int]]]:
    d, third = rows // (3 * H), rows // 3
    yield [list(range(part * third, (part + 1) * third)) for part in range(3)]
    if H > 1:
        yield [[h * 3 * d + part * d + j for h in range(H) for j in range(d)] for part in range(3)]
    yield [[(h * d + j) * 3 + part for h in range(H) for j in range(d)] for part in range(3)]


def _grouped_thirds(rows: int, H: int, H_kv: int) -> Iterator[list[list[int]]]:
    """The same where groups of query heads share a key/value head."""
    d, rest = divmod(rows, H + 2 * H_kv)
    if rest:
        return
    ends = (0, H * d, (H + H_kv) * d, rows)
    yield [list(range(a, b)) for a, b in pairwise(ends)]
    group = H // H_kv + 2  # the queries of a group, then its key and its value
    lines = [list(range(start, start + d)) for start in range(0, rows, d)]
    yield [
        list(chain(*(lines[g * group + n] for g in range(H_kv) for n in range(group - 2)))),
        list(chain(*(lines[g * group + group - 2] for g in range(H_kv)))),
        list(chain(*(lines[g * group + group - 1] for g in range(H_kv)))),
    ]


def halves(rows: int, d_head: int) -> Iterator[tuple[list[int], list[int]]]:
    """Rows of k and of v in one weight: one after the other, or head by head."""
    half = rows // 2
    yield list(range(half)), list(range(half, rows))
    if d_head and half % d_head == 0 and half > d_head:
        by_head = [list(range(start, start + d_head)) for start in range(0, rows, d_head)]
        yield list(chain(*by_head[0::2])), list(chain(*by_head[1::2]))
