"""Where the projections of a module lie in its parameters, and how writing them makes it a bare lookup.

A module is a function of q, k and v once its weights are chosen: a token becomes one-hot, a mere number, the
projections become tables that hold the wanted vectors in its column, the output projection picks the
merged heads. So one call of the module asks for any q, k and v.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import torch
from torch import Tensor

from softlookup.checker.remembering import ByIdentity
from softlookup.terms import Case

Source = Literal["self", "cross", "three"]

#: Numbers in the columns of tokens that a projection should never meet; they show which it met instead.
_DECOY_SEED = 7_919


@dataclass(frozen=True)
class Slot:
    """The rows of one projection in one parameter.

    in_axis: the axis of the parameter along which the input lies; the others, flattened in order, are the
        outputs
    outputs: for each of these places of the projection, ``places``, the output of the parameter that holds it
    """

    parameter: str
    shape: tuple[int, ...]
    in_axis: int
    outputs: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def width(self) -> int:
        """Length of the input."""
        return self.shape[self.in_axis]


@dataclass(frozen=True)
class Wiring:
    """The projections around the lookup of one module, and the sizes that they fix."""

    num_heads: int
    num_kv_heads: int
    d_head: int
    d_v: int
    q: tuple[Slot, ...]
    k: tuple[Slot, ...]
    v: tuple[Slot, ...]
    out: tuple[Slot, ...] = ()  # the other way round: heads are the inputs; empty: heads are returned merged
    d_out: int = 0  # width of what the module returns
    source: Source = "self"  # one input; queries from one and keys and values from another; three of them
    residual: bool = False  # the input is added to the output
    zeroed: tuple[str, ...] = ()  # biases and adapters, 0 while it is asked
    opened: tuple[str, ...] = ()  # factors on the output or in a norm, 1 while it is asked
    bypassed: tuple[str, ...] = ()  # normalisations of the input or output
    fused: tuple[str, ...] = ()  # parameters that hold several projections, as the code calls them
    order_stated: bool = False  # a fused parameter's name says in which order they lie
    asker_stated: bool = True  # names say which of two inputs asks
    heads_summed: bool = False  # the output projection takes one head's width
    dense: bool = False  # tokens have no feature that is 0: something divides by what all of them have there

    @property
    def widths(self) -> tuple[int, int, int]:
        """Widths of the inputs that q, k and v are made from."""
        return self.q[0].width, self.k[0].width, self.v[0].width

    @property
    def shown(self) -> int:
        """How many features of each value reach the output of the module."""
        heads = 1 if self.heads_summed else self.num_heads
        return min(self.d_v, self.d_out // heads)

    @property
    def capacity(self) -> int:
        """How many different tokens the inputs can tell apart."""
        return min(self.widths)

    def but(self, **changes: object) -> Wiring:
        """Return the same with some fields changed."""
        return replace(self, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Tokens:
    """One case as a module gets it: inputs as one-hot tokens, projections as tables.

    x [B, T_q, width], memory and values [B, T_k, width]: what queries, keys and values are made from
    tables: "q", "k", "v" -> [heads * d, width]
    """

    x: Tensor
    memory: Tensor
    values: Tensor
    tables: dict[str, Tensor]

    def projected(self, role: str, table: str | None = None, source: Tensor | None = None) -> Tensor:
        """[B, T, heads * d]: one input through one table; by default its own."""
        given = {"q": self.x, "k": self.memory, "v": self.values}[role] if source is None else source
        weight = self.tables[table or role]
        # A broken token is broken in every feature, and hides nothing of the others.
        return given.to(weight.dtype) @ weight.T


def tokens_of(case: Case) -> Tokens:
    """Return the case as tokens and tables; the same object for the same case.

    Raises: RuntimeError when the inputs have too few features to tell so many tokens apart.
    """
    return _MADE.get(case, lambda: _tokens(case))


def remember(case: Case, tokens: Tokens) -> None:
    """Let these be the tokens of a case that has none yet."""
    _MADE.get(case, lambda: tokens)


_MADE = ByIdentity()


def _tokens(case: Case) -> Tokens:
    """Write the case as tokens and tables.

    Raises: RuntimeError when the inputs have too few features to tell so many tokens apart.
    """
    wiring: Wiring = case.wiring
    if case.past:  # the first keys and values are handed over as they are
        case = case.but(k=case.k[:, :, case.past :], v=case.v[:, :, case.past :])
    B, _, T_q, _ = case.q.shape
    T_k = case.k.shape[2]
    counts = {"self": (B * T_q, 0, 0), "cross": (B * T_q, B * T_k, 0), "three": (B * T_q, B * T_k, B * T_k)}
    codes = _codes(counts[wiring.source], wiring.widths)
    rows = {"q": case.q, "k": case.k, "v": _padded(case.v, wiring.d_v)}
    tables = {}
    for (role, heads), width, code in zip(rows.items(), wiring.widths, codes, strict=True):
        flat = heads.transpose(1, 2).flatten(2).flatten(0, 1)  # [B * T, heads * d]
        table = _decoys(role, flat.shape[-1], width).to(flat.dtype)
        table[:, code] = flat.nan_to_num(0.0, 0.0, 0.0).T
        tables[role] = table
    lengths = (T_q, T_k, T_k)
    inputs = [
        torch.nn.functional.one_hot(code.view(B, T), width).to(case.q.dtype)
        for code, T, width in zip(codes, lengths, wiring.widths, strict=True)
    ]
    if wiring.dense:
        turns = [_turn(width) for width in wiring.widths]
        inputs = [(x.double() @ turn).to(x.dtype) for x, turn in zip(inputs, turns, strict=True)]
        turned = zip(tables.items(), turns, strict=True)
        tables = {role: (table.double() @ turn).to(table.dtype) for (role, table), turn in turned}
    broken = [_broken(tensor) for tensor in rows.values()]
    if wiring.source != "three":  # keys and values come from one token
        broken[1] = broken[2] = broken[1] | broken[2]
    inputs = [x.masked_fill(bad[..., None], torch.nan) for x, bad in zip(inputs, broken, strict=True)]
    blank = _blanks(rows, wiring.source)
    inputs = [x.masked_fill(no[..., None], 0.0) for x, no in zip(inputs, blank, strict=True)]
    if wiring.source == "self":
        inputs = [inputs[1]] * 3
    elif wiring.source == "cross":
        inputs[2] = inputs[1]
    return Tokens(inputs[0], inputs[1], inputs[2], tables)


def _codes(counts: tuple[int, int, int], widths: tuple[int, int, int]) -> list[Tensor]:
    """Number the tokens of the three inputs; where the width allows it, no two inputs share a number."""
    if max(counts) > min(widths):
        raise RuntimeError(f"{max(counts)} tokens cannot be told apart by {min(widths)} features")
    found: list[Tensor] = []
    used = 0
    for count, width in zip(counts, widths, strict=True):
        if count == 0:  # the same tokens as before
            found.append(found[-1])
            continue
        start = used if used + count <= width else 0
        found.append(torch.arange(start, start + count))
        used = start + count
    return found


def _decoys(role: str, outputs: int, width: int) -> Tensor:
    seed = _DECOY_SEED + "qkv".index(role)
    return torch.randn(outputs, width, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@lru_cache(maxsize=64)
def _turn(width: int) -> Tensor:
    """[width, width]: an orthogonal matrix, so that turned tokens meet turned tables as before."""
    random = torch.Generator().manual_seed(_DECOY_SEED + width)
    square = torch.randn(width, width, generator=random, dtype=torch.float64)
    turn: Tensor = torch.linalg.qr(square)[0]
    return turn


def _padded(v: Tensor, d_v: int) -> Tensor:
    """[..., d] -> [..., d_v]: the features that cannot be seen in the output are 0."""
    return torch.nn.functional.pad(v, (0, d_v - v.shape[-1]))


def _broken(heads: Tensor) -> Tensor:
    """[B, H, T, d] -> [B, T]: tokens with a NaN or an infinity."""
    return ~heads.isfinite().all(dim=-1).all(dim=1)


def _blanks(rows: dict[str, Tensor], source: Source) -> list[Tensor]:
    """[B, T] for each input: tokens from which only zeros are made, as padding mostly is."""
    q, k, v = (~heads.any(dim=-1).any(dim=1) for heads in rows.values())
    if source == "self":
        return [q & k & v] * 3
    return [torch.zeros_like(q), k, v] if source == "three" else [torch.zeros_like(q), k & v, k & v]


def chosen_weights(case: Case, *, out: Tensor | None = None) -> dict[str, Tensor]:
    """Return parameter -> value, so that the module answers with the lookup of the case.

    out: [d_out, H * d_v]: the output projection; without it, it picks the shown features of each head
    """
    wiring: Wiring = case.wiring
    tables = tokens_of(case).tables
    found: dict[str, Tensor] = {}
    for role in ("q", "k", "v"):
        for slot in getattr(wiring, role):
            _write(found, slot, tables[role])
    if wiring.out:
        picked = picking(wiring).to(case.q.dtype) if out is None else out
        for slot in wiring.out:
            _write(found, slot, picked.T)
    return found


@lru_cache(maxsize=64)
def picking(wiring: Wiring) -> Tensor:
    """[d_out, H * d_v]: the projection that hands on the shown features of each head; not to be changed."""
    heads = 1 if wiring.heads_summed else wiring.num_heads
    table = torch.zeros(wiring.d_out, heads * wiring.d_v, dtype=torch.float64)
    for head in range(heads):
        for feature in range(wiring.shown):
            table[head * wiring.shown + feature, head * wiring.d_v + feature] = 1.0
    return table


def mixing(wiring: Wiring) -> Tensor:
    """[d_out, H * d_v]: an orthogonal mixture of what ``picking`` hands on."""
    random = torch.Generator().manual_seed(17)
    square = torch.randn(wiring.d_out, wiring.d_out, generator=random, dtype=torch.float64)
    mixture: Tensor = torch.linalg.qr(square)[0]
    return mixture @ picking(wiring)


def _write(found: dict[str, Tensor], slot: Slot, matrix: Tensor) -> None:
    """Write [places, input] into the parameter that a slot describes."""
    others = [size for axis, size in enumerate(slot.shape) if axis != slot.in_axis]
    if slot.parameter not in found:
        found[slot.parameter] = matrix.new_zeros(slot.shape)
    flat = found[slot.parameter].movedim(slot.in_axis, -1).reshape(-1, slot.width).clone()
    flat[list(slot.outputs)] = matrix[list(slot.places)]
    found[slot.parameter] = flat.view(*others, slot.width).movedim(-1, slot.in_axis).contiguous()


def read_matrix(slots: tuple[Slot, ...], weights: dict[str, Tensor]) -> Tensor:
    """Return the projection [places, input] that these weights hold."""
    count = sum(len(slot.places) for slot in slots)
    first = weights[slots[0].parameter]
    matrix = first.new_zeros(count, slots[0].width)
    for slot in slots:
        flat = weights[slot.parameter].reshape(slot.shape).movedim(slot.in_axis, -1).reshape(-1, slot.width)
        matrix[list(slot.places)] = flat[list(slot.outputs)]
    return matrix
