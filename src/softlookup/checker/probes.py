"""Inputs chosen so that different bugs leave different marks.

Every axis has a size of its own, so that a confused axis cannot hide behind an equal one; then one probe has all
axes equal, where a wrong broadcast is accepted in silence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.terms import Case, Corner


@dataclass(frozen=True)
class Abilities:
    """What a target lets us ask. Probes are built from this, so that nothing is asked that it never promised."""

    batch: bool = True
    heads: bool = True
    grouped: bool = False  # H_kv < H
    rectangular: bool = True  # T_q != T_k
    own_value_width: bool = True  # d_v != d_head
    one_source: bool = False  # q, k and v are the same tensor
    mask_axes: frozenset[str] = frozenset()  # of B, H, T_q, T_k; empty: takes no mask
    mask_always: bool = False  # cannot be called without a mask
    integer_mask: bool = False
    bias: bool = False
    causal: bool = False  # causality can be asked for by an argument
    always_causal: bool = False
    causal_unless_masked: bool = False  # a given mask replaces the built-in causal rule
    corner: Corner = "top-left"
    scale: bool = False
    fixed_scale: float | None = None
    window: bool = False  # a window can be asked for by an argument
    fixed_window: int | None = None
    window_ahead: bool = False
    window_ahead_alone: bool = False  # without the causal rule the window reaches forward too
    documents: bool = False
    gradients: bool = True
    max_score: float = 3e4  # scores may get this large


@dataclass(frozen=True)
class Probe:
    """One question: a case, and what else to look at while it is answered."""

    name: str
    case: Case
    backward: bool = False
    strided: bool = False
    integer_mask: bool = False
    training: bool = False  # put a module in training mode
    seed: int = 0  # of the random numbers that the target may draw
    compared: bool = True  # part of naming by forward values; the rest is for the rules that judge


@dataclass(frozen=True)
class _Sizes:
    B: int = 2
    H: int = 3
    H_kv: int = 3
    T_q: int = 5
    T_k: int = 7
    d_head: int = 8
    d_v: int = 4


class _Builder:
    """Builds cases that respect the abilities; every case has its own fixed random numbers."""

    def __init__(self, abilities: Abilities, dtype: torch.dtype) -> None:
        self.abilities = abilities
        self.dtype = dtype

    def sizes(self, **wanted: int) -> _Sizes:
        can = self.abilities
        sizes = replace(_Sizes(H=6) if can.grouped else _Sizes(), **wanted)
        if not can.batch:
            sizes = replace(sizes, B=1)
        if not can.heads:
            sizes = replace(sizes, H=1, H_kv=1)
        elif not can.grouped:
            sizes = replace(sizes, H_kv=sizes.H)
        if not can.rectangular:
            sizes = replace(sizes, T_k=sizes.T_q)
        if not can.own_value_width:
            sizes = replace(sizes, d_v=sizes.d_head)
        return sizes

    def case(self, seed: int, sizes: _Sizes, *, gain: float = 1.0, spread: bool = True) -> Case:
        random = torch.Generator().manual_seed(seed)
        draw = lambda *shape: torch.randn(*shape, generator=random, dtype=torch.float64)  # noqa: E731 - one line, used thrice
        # A gain per sample, head and query: a softmax over the wrong axis must never look nearly right.
        q = draw(sizes.B, sizes.H, sizes.T_q, sizes.d_head) * gain
        k = draw(sizes.B, sizes.H_kv, sizes.T_k, sizes.d_head)
        v = draw(sizes.B, sizes.H_kv, sizes.T_k, sizes.d_v) + 0.5
        if self.abilities.one_source:
            k = v = q
        can = self.abilities
        case = Case(
            q.to(self.dtype),
            k.to(self.dtype).clone(),
            v.to(self.dtype).clone(),
            causal=can.corner if can.always_causal else None,
            window=can.fixed_window,
            scale=can.fixed_scale,
        )
        if can.mask_always and not can.causal_unless_masked:
            case = case.but(allowed_mask=torch.ones_like(self.random_mask(case, 1)))
        return case

    def masked(self, case: Case, allowed_mask: Tensor) -> Case:
        """Give the mask; every query keeps at least one key under all rules together."""
        if self.abilities.causal_unless_masked:
            case = case.but(causal=None)
        return case.but(allowed_mask=keep_one_key(case, allowed_mask))

    def random_mask(self, case: Case, seed: int) -> Tensor:
        """[B or 1, H or 1, T_q or 1, T_k] over the axes that the target's mask has."""
        axes = self.abilities.mask_axes
        B, H, T_q = case.q.shape[:3]
        shape = (B if "B" in axes else 1, H if "H" in axes else 1, T_q if "T_q" in axes else 1, case.k.shape[-2])
        random = torch.Generator().manual_seed(seed)
        return torch.rand(shape, generator=random) < 0.6

    def padding_mask(self, case: Case) -> Tensor:
        """[B or 1, 1, 1, T_k]: each sample is shorter than the one before; expanded over queries if it must be."""
        axes = self.abilities.mask_axes
        T_q, T_k = case.q.shape[-2], case.k.shape[-2]
        B = case.q.shape[0] if "B" in axes else 1
        lengths = torch.tensor([max(1, T_k - 2 - 2 * b) for b in range(B)])
        mask = (torch.arange(T_k) < lengths[:, None])[:, None, None, :]
        return mask.expand(B, 1, T_q if "T_q" in axes else 1, T_k).clone()


def keep_one_key(case: Case, allowed_mask: Tensor) -> Tensor:
    """Allow one more key in every row of the mask that would leave some query with none."""
    mask = allowed_mask.clone()
    for _ in range(case.k.shape[-2] + 1):
        allowed = STEPS.visible(case.but(allowed_mask=mask))
        assert allowed is not None
        empty = ~allowed.any(dim=-1, keepdim=True)
        if not empty.any():
            return mask
        others = STEPS.visible(case.but(allowed_mask=None))
        free = others if others is not None else torch.ones_like(allowed)
        last = free.int().cumsum(-1).argmax(-1, keepdim=True)  # the last key that the other rules allow
        rescue = empty & (torch.arange(free.shape[-1]) == last)
        for axis, size in enumerate(mask.shape[:-1]):
            if size == 1 and rescue.dim() > axis and rescue.shape[axis] > 1:
                rescue = rescue.any(dim=axis, keepdim=True)
        mask = mask | rescue.expand(mask.shape)
    return mask


def suite(can: Abilities, dtype: torch.dtype = torch.float32) -> list[Probe]:
    """Return every probe that the abilities allow."""
    build = _Builder(can, dtype)
    square = build.sizes(T_k=5)
    probes = [
        Probe("plain", build.case(1, build.sizes())),
        Probe("square", build.case(2, square)),
        Probe("wide", build.case(9, build.sizes(d_head=12, d_v=6))),
        Probe("large", build.case(3, build.sizes(), gain=40.0)),
        Probe("long", build.case(4, _long_sizes(build, can))),
        Probe("overflow", build.case(5, build.sizes(), gain=400.0)),
        Probe("zero-queries", _zero_queries(build.case(6, square))),
    ]
    probes += _causal_probes(build, can, square)
    if can.mask_axes:
        probes += _mask_probes(build, can, square)
    if can.scale:
        probes.append(Probe("scale-argument", build.case(7, build.sizes()).but(scale=0.17)))
    if can.bias:
        probes += _bias_probes(build, square)
    if can.documents:
        documents = _documents(build.case(8, build.sizes(T_q=6, T_k=6)))
        probes.append(Probe("documents", documents))
        probes.append(Probe("hidden-nan-documents", _broken_document(documents), compared=False))
    return probes + _conduct_probes(build, can, square)


def _long_sizes(build: _Builder, can: Abilities) -> _Sizes:
    """More keys than a block of 256 and no multiple of anything; square targets get 67, loops are slow."""
    long = {"T_q": 3, "T_k": 261} if can.rectangular else {"T_q": 67, "T_k": 67}
    return build.sizes(**long, B=1, H=2 if can.grouped else 1, H_kv=1)


def _zero_queries(case: Case) -> Case:
    """Two queries whose scores are all exactly 0: allowed, and nothing special."""
    q = case.q.clone()
    q[..., 1, :] = 0
    q[..., 3, :] = 0
    k, v = (q.clone(), q.clone()) if case.k.shape == q.shape and torch.equal(case.k, case.q) else (case.k, case.v)
    return case.but(q=q, k=k, v=v)


def _causal_probes(build: _Builder, can: Abilities, square: _Sizes) -> list[Probe]:
    probes: list[Probe] = []
    if can.causal or can.always_causal:
        huge = build.case(17, square).but(causal=can.corner)
        probes.append(Probe("huge-causal", _huge(huge, can.max_score)))
    if can.causal:
        probes.append(Probe("causal", build.case(11, square).but(causal=can.corner)))
        if can.rectangular:
            probes.append(Probe("causal-rect", build.case(12, build.sizes()).but(causal=can.corner)))
            tall = build.sizes(T_q=7, T_k=5)
            probes.append(Probe("causal-rect-tall", build.case(16, tall).but(causal=can.corner)))
        if can.mask_axes:
            causal = build.case(13, square).but(causal=can.corner)
            probes.append(Probe("causal-padding", build.masked(causal, build.padding_mask(causal))))
            if "T_q" in can.mask_axes:
                probes.append(Probe("causal-masked", build.masked(causal, build.random_mask(causal, 14))))
    if can.window:
        case = build.case(15, build.sizes(T_q=7, T_k=7))
        causal = can.corner if can.causal or can.always_causal else None
        probes.append(Probe("window", case.but(window=3, window_ahead=can.window_ahead, causal=causal)))
        if can.causal:
            probes.append(Probe("window-alone", case.but(window=3, window_ahead=can.window_ahead_alone)))
        if can.mask_axes:
            probes.append(Probe("window-padding", build.masked(case.but(window=3, window_ahead=can.window_ahead, causal=causal), build.padding_mask(case))))
    return probes


def _mask_probes(build: _Builder, can: Abilities, square: _Sizes) -> list[Probe]:
    masked = build.case(21, build.sizes())
    masked = build.masked(masked, build.random_mask(masked, 22))
    padded = build.case(23, square)
    padded = build.masked(padded, build.padding_mask(padded))
    equal = build.case(24, build.sizes(B=4, H=4, H_kv=4, T_q=4, T_k=4))
    large = build.case(25, build.sizes(), gain=40.0)
    full = build.case(27, square)
    probes = [
        Probe("masked", masked),
        Probe("padding", padded),
        Probe("all-allowed", build.masked(full, torch.ones_like(build.random_mask(full, 1)))),
        Probe("equal-axes", build.masked(equal, build.random_mask(equal, 26))),
        Probe("zero-queries-masked", _zero_queries(padded)),
        Probe("large-masked", build.masked(large, build.random_mask(large, 28))),
        Probe("huge-masked", _huge(padded, can.max_score)),
        Probe("hidden-nan", _hidden_nan(padded), compared=False),
        Probe("empty-row", _empty_row(build, square), compared=False),
    ]
    if can.integer_mask:
        probes.append(Probe("integer-mask", masked, integer_mask=True, compared=False))
    if can.gradients:
        probes.append(Probe("gradients-masked", masked, backward=True))
        probes.append(Probe("gradients-empty-row", _empty_row(build, square), backward=True, compared=False))
    if can.causal or can.always_causal:
        # Left padding under the causal rule: the first queries have nothing to look at.
        case = build.case(29, square).but(causal=can.corner)
        mask = torch.arange(case.k.shape[-2]) >= 2
        mask = mask.expand(build.padding_mask(case).shape).clone()
        probes.append(Probe("empty-row-causal", case.but(allowed_mask=mask), compared=False))
    return probes


def _huge(case: Case, max_score: float) -> Case:
    """Scores of about -max_score everywhere, below a modest finite fill: one feature is opposite in q and k."""
    q, k = case.q.clone(), case.k.clone()
    size = math.sqrt(max_score * math.sqrt(q.shape[-1]))
    q[..., 0], k[..., 0] = size, -size
    return case.but(q=q, k=k)


def _hidden_nan(case: Case) -> Case:
    """NaN in every key and value that no query of its sample may look at."""
    allowed = STEPS.visible(case)
    assert allowed is not None
    B, H, T_q = case.q.shape[:3]
    seen = allowed.expand(B, H, T_q, case.k.shape[-2]).any(dim=2).any(dim=1)  # [B, T_k]
    hidden = ~seen[:, None, :, None]
    return case.but(k=case.k.masked_fill(hidden, math.nan), v=case.v.masked_fill(hidden, math.nan))


def _empty_row(build: _Builder, square: _Sizes) -> Case:
    """One query of one sample may look nowhere; a mask without a query axis empties the whole sample."""
    case = build.case(31, square)
    case = build.masked(case, build.random_mask(case, 32))
    assert case.allowed_mask is not None
    mask = case.allowed_mask.clone()
    mask[-1, 0, min(2, mask.shape[2] - 1)] = False
    return case.but(allowed_mask=mask)


def _bias_probes(build: _Builder, square: _Sizes) -> list[Probe]:
    case = build.case(41, square)
    shape = (1, 1, case.q.shape[-2], case.k.shape[-2])
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(42), dtype=torch.float64)
    return [Probe("bias", case.but(additive_bias=bias.to(case.q.dtype)))]


def _documents(case: Case) -> Case:
    """Two documents in each row, cut at another place in each sample."""
    B, T = case.q.shape[0], case.q.shape[-2]
    ids = torch.stack([(torch.arange(T) >= 2 + b).long() for b in range(B)])
    return case.but(document_ids=ids)


def _broken_document(case: Case) -> Case:
    """NaN in the last document's keys and values, which no query of the first may look at."""
    assert case.document_ids is not None
    last = (case.document_ids == 1)[:, None, :, None]
    return case.but(k=case.k.masked_fill(last, math.nan), v=case.v.masked_fill(last, math.nan))


def _conduct_probes(build: _Builder, can: Abilities, square: _Sizes) -> list[Probe]:
    """How the target behaves: strides, repetition, neighbours, gradients, half precision."""
    case = build.case(51, build.sizes())
    probes = [
        Probe("strided", case, strided=True, compared=False),
        Probe("strided-contiguous", case, compared=False),
        Probe("repeat-1", case, compared=False),
        Probe("repeat-2", case, seed=1, compared=False),
    ]
    if can.batch:
        k, v = case.k.clone(), case.v.clone()
        q = case.q.clone()
        for tensor in (q, k, v):
            tensor[1:] = tensor[1:] * -1.5 + 0.3
        if can.one_source:
            k, v = q.clone(), q.clone()
        probes.append(Probe("neighbours", case.but(q=q, k=k, v=v), compared=False))
    if can.gradients:
        probes.append(Probe("gradients", build.case(52, build.sizes()), backward=True))
        if can.causal:
            causal = build.case(53, square).but(causal=can.corner)
            probes.append(Probe("gradients-causal", causal, backward=True))
    halves = {torch.float32: (torch.float16, torch.bfloat16)}.get(build.dtype, (build.dtype,))
    return probes + [probe for dtype in halves if dtype.itemsize == 2 for probe in _half_probes(can, square, dtype)]


def _half_probes(can: Abilities, square: _Sizes, dtype: torch.dtype) -> list[Probe]:
    probes: list[Probe] = []
    label = "half-" + str(dtype).removeprefix("torch.")
    build = _Builder(can, dtype)
    wide = build.sizes(T_q=9, T_k=33, d_head=32)
    # Sums over many keys show where they are kept in half precision.
    many = build.sizes(B=1, H=2 if can.grouped else 1, H_kv=1, T_q=3 if can.rectangular else 65, T_k=515, d_head=32)
    probes.append(Probe(label, build.case(61, wide), compared=False))
    probes.append(Probe(label + "-many", build.case(65, many), compared=False))
    probes.append(Probe(label + "-large", build.case(62, wide, gain=8.0), compared=False))
    if can.mask_axes:
        case = build.case(63, square)
        probes.append(Probe(label + "-masked", build.masked(case, build.padding_mask(case)), compared=False))
    if can.causal:
        causal = build.case(64, square).but(causal=can.corner)
        probes.append(Probe(label + "-causal", causal, compared=False))
    return probes
