"""Guess where the projections of a module lie: names first, then every layout that the shapes allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, permutations, product
from math import prod

from softlookup.checker.calls import Sketch
from softlookup.checker.fused_rows import halves, order_told, thirds, told_groups
from softlookup.checker.weight_names import (
    Named,
    d_head_of,
    gates_of,
    heads_of,
    kv_heads_of,
    named_weights,
    norm_factors_of,
    norms_around,
    silent_weights,
)
from softlookup.checker.wiring import Slot, Source, Wiring

_MOST = 48  # guesses


@dataclass(frozen=True)
class _Matrix:
    """One weight seen as rows (outputs) by one input axis."""

    named: Named
    in_axis: int

    @property
    def rows(self) -> int:
        shape = self.named.weight.shape
        return prod(shape) // shape[self.in_axis]

    @property
    def width(self) -> int:
        return self.named.weight.shape[self.in_axis]

    def slot(self, outputs: Iterator[int] | range | list[int], first: int = 0) -> Slot:
        rows = tuple(outputs)
        places = tuple(range(first, first + len(rows)))
        return Slot(self.named.weight.name, self.named.weight.shape, self.in_axis, rows, places)


def guess_wirings(sketch: Sketch, source: Source) -> list[Wiring]:
    """Return the wirings that names and shapes allow, the likeliest first; none where no projections are."""
    return list(islice(_unlike(_wirings(sketch, source)), _MOST))


def _unlike(wirings: Iterator[Wiring]) -> Iterator[Wiring]:
    seen = set()
    for wiring in wirings:
        if wiring not in seen:
            seen.add(wiring)
            yield wiring


def _wirings(sketch: Sketch, source: Source) -> Iterator[Wiring]:
    zeroed, opened = silent_weights(sketch), gates_of(sketch) + norm_factors_of(sketch)
    for roles in _role_guesses(named_weights(sketch)):
        for heads in _head_guesses(sketch, roles):
            for wiring in _with_heads(roles, heads, sketch):
                if not wiring.shown:
                    continue  # fewer features come out than there are heads: nothing could be compared
                yield wiring.but(
                    source=source,
                    zeroed=zeroed,
                    opened=opened,
                    bypassed=norms_around(sketch, wiring.num_heads, wiring.d_head),
                )


Roles = dict[str, list[Named]]


def _role_guesses(weights: list[Named]) -> Iterator[Roles]:
    """Group the weights by role; where names say nothing, in the order in which they were made."""
    roles: Roles = {}
    for named in weights:
        if named.role:
            roles.setdefault(named.role, []).append(named)
    listed = [named for named in roles.get("out", []) if named.place is not None]
    nameless = [named for named in weights if named.role is None] or (listed if len(listed) >= 3 else [])
    known = set(roles)
    if {"q", "k", "v"} <= known or {"qkv", "packed"} & known or {"q", "kv"} <= known:
        yield roles
        return
    if len(nameless) in {3, 4} and not known & {"q", "k", "v"}:
        kept = {role: [n for n in group if n not in nameless] for role, group in roles.items()}
        for order in permutations(nameless):
            chosen = {role: [one] for role, one in zip(("q", "k", "v", "out"), order, strict=False)}
            yield {**{role: group for role, group in kept.items() if group}, **chosen}
    if len(nameless) == 1 or (len(nameless) == 2 and not known):
        yield {**roles, "packed": [nameless[0]], **({"out": [nameless[1]]} if len(nameless) == 2 else {})}


def _head_guesses(sketch: Sketch, roles: Roles) -> Iterator[tuple[int, int | None]]:
    """Yield numbers of query heads and, when a setting says so, of key/value heads."""
    stated, kv = heads_of(sketch), kv_heads_of(sketch)
    listed = [named.place for named in roles.get("q", roles.get("qkv", [])) if named.place is not None]
    if len(listed) > 1 and len(set(listed)) == len(listed):
        yield len(listed), None
        return
    if stated:
        yield stated, kv
        return
    if not {"q", "qkv", "packed"} & set(roles):
        return
    first = roles.get("q") or roles.get("qkv") or roles["packed"]
    rows = max(first[0].weight.shape) if len(first[0].weight.shape) < 3 else 0
    d_head = d_head_of(sketch)
    if d_head and rows and rows % d_head == 0 and "q" in roles:
        yield rows // d_head, kv
    if len(first[0].weight.shape) == 3 and min(first[0].weight.shape) > 1:
        for size in first[0].weight.shape:
            yield size, kv
    for heads in (1, 2, 3, 4, 6, 8, 12, 16):
        if rows == 0 or rows % heads == 0:
            yield heads, kv


def _with_heads(roles: Roles, heads: tuple[int, int | None], sketch: Sketch) -> Iterator[Wiring]:
    H, H_kv = heads
    projections = (
        _fused(roles, H, H_kv, sketch.doc.lower()) if {"qkv", "packed"} & set(roles) else _apart(roles, H)
    )
    for q, k, v, fused, stated in projections:
        d_head, rest = divmod(_count(q), H)
        if rest or not d_head or _count(k) % d_head:
            continue
        kv_heads = _count(k) // d_head
        if not kv_heads or H % kv_heads or _count(v) % kv_heads:
            continue
        d_v = _count(v) // kv_heads
        for out, d_out, summed in _outputs(roles, H, d_v):
            yield Wiring(
                H, kv_heads, d_head, d_v, q, k, v, out, d_out,
                fused=fused, order_stated=stated, heads_summed=summed,
            )  # fmt: skip


def _count(slots: tuple[Slot, ...]) -> int:
    return sum(len(slot.places) for slot in slots)


Slots = tuple[Slot, ...]
Projections = tuple[Slots, Slots, Slots, tuple[str, ...], bool]


def _apart(roles: Roles, H: int) -> Iterator[Projections]:
    """q, k and v in weights of their own; k and v may share one."""
    for q in _matrices(roles.get("q", [])):
        if "kv" in roles:
            for kv in _matrices(roles["kv"]):
                whole = kv[0]
                d_head = sum(m.rows for m in q) // H
                for k_rows, v_rows in halves(whole.rows, d_head):
                    pair = (whole.slot(k_rows),), (whole.slot(v_rows),)
                    yield _joined(q), *pair, (whole.named.word,), True
            continue
        for k, v in product(_matrices(roles.get("k", [])), _matrices(roles.get("v", []))):
            if q[0].in_axis == k[0].in_axis == v[0].in_axis or len({m[0].named.owner for m in (q, k, v)}) > 1:
                yield _joined(q), _joined(k), _joined(v), (), False


def _fused(roles: Roles, H: int, H_kv: int | None, words: str) -> Iterator[Projections]:
    role = "qkv" if "qkv" in roles else "packed"
    if len(roles[role]) > 1:  # one for each head
        yield from _fused_by_head(roles[role])
        return
    stated = role == "qkv" or order_told(words)
    for (whole,) in _matrices(roles[role]):
        for parts in told_groups(list(thirds(whole.rows, H, H_kv)), words):
            for order in permutations(range(3)) if not stated else [(0, 1, 2)]:
                q, k, v = ((whole.slot(parts[place]),) for place in order)
                yield q, k, v, (whole.named.word,), stated


def _fused_by_head(weights: list[Named]) -> Iterator[Projections]:
    slots: dict[str, list[Slot]] = {"q": [], "k": [], "v": []}
    for named in weights:
        matrix = _axes(named)[0]
        third = matrix.rows // 3
        for place, role in enumerate("qkv"):
            first = sum(len(s.places) for s in slots[role])
            slots[role].append(matrix.slot(range(place * third, (place + 1) * third), first))
    yield tuple(slots["q"]), tuple(slots["k"]), tuple(slots["v"]), (weights[0].word,), True


def _matrices(group: list[Named]) -> Iterator[list[_Matrix]]:
    """Each way to see a role's weight, or its weights one a head, as rows by inputs."""
    if not group:
        return
    if len(group) > 1 and all(named.place is not None for named in group):
        choices = [_axes(named) for named in group]
        for axis in range(len(choices[0])):
            yield [axes[axis] for axes in choices]
        return
    for matrix in _axes(group[0]):
        yield [matrix]


def _axes(named: Named) -> list[_Matrix]:
    """The axes along which the input may lie."""
    shape = named.weight.shape
    if named.owner == "Conv1D":  # of the transformers package: [in, out]
        return [_Matrix(named, 0)]
    if len(shape) == 2 and named.weight.name.endswith("kernel"):  # of Keras and flax: [in, out]
        return [_Matrix(named, 0)]
    if named.owner:
        return [_Matrix(named, 1)]
    if len(shape) == 3:  # [H, in, d], [in, H, d], [H, d, in]
        return [_Matrix(named, axis) for axis in (1, 0, 2)]
    if named.weight.name.endswith("_proj_weight") or shape[0] == 3 * shape[1]:
        return [_Matrix(named, 1)]
    return [_Matrix(named, 0), _Matrix(named, 1)]


def _joined(matrices: list[_Matrix]) -> tuple[Slot, ...]:
    slots, first = [], 0
    for matrix in matrices:
        slots.append(matrix.slot(range(matrix.rows), first))
        first += matrix.rows
    return tuple(slots)


def _outputs(roles: Roles, H: int, d_v: int) -> Iterator[tuple[tuple[Slot, ...], int, bool]]:
    """Yield the output projection, the width of what it returns, and whether it takes one head's width."""
    outs = roles.get("out", [])
    for named in outs[::-1]:
        for axis in _out_axes(named):
            matrix = _Matrix(named, axis)
            if matrix.rows == H * d_v:
                yield (matrix.slot(range(matrix.rows)),), matrix.width, False
        for axis in _out_axes(named):
            matrix = _Matrix(named, axis)
            if matrix.rows == d_v and H > 1:
                yield (matrix.slot(range(matrix.rows)),), matrix.width, True
    yield (), H * d_v, False


def _out_axes(named: Named) -> tuple[int, ...]:
    """The axes along which the output of the output projection may lie."""
    shape = named.weight.shape
    if named.owner == "Conv1D":
        return (1,)
    if named.owner:
        return (0,)
    return (2, 0) if len(shape) == 3 else (1, 0)
