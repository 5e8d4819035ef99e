"""Inputs chosen so that different bugs leave different marks.

Every axis has a size of its own, so that a confused axis cannot hide behind an equal one; then one probe has
all axes equal, where a wrong broadcast is accepted in silence.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch

from softlookup.checker.abilities import Abilities, Probe
from softlookup.checker.cases import (
    CaseBuilder,
    Sizes,
    in_two_documents,
    with_blank_end,
    with_broken_document,
    with_hidden_nan,
    with_huge_scores,
    with_zero_queries,
    without_last,
)
from softlookup.checker.wiring import Wiring
from softlookup.terms import Case

#: Minus these scores: a careless finite fill (-50) lies above, one in use on purpose (-100) below.
_LOW_SCORE = 70.0
#: A module with more dropouts than this holds more than attention.
_MOST_DROPOUTS = 6


@lru_cache(maxsize=512)
def plain_case(can: Abilities, dtype: torch.dtype = torch.float32) -> Case:
    """Return the case of the first probe: enough to see whether a guess runs at all."""
    build = CaseBuilder(can, dtype)
    return build.case(1, build.sizes())


@lru_cache(maxsize=64)
def suite(can: Abilities, dtype: torch.dtype = torch.float32) -> tuple[Probe, ...]:
    """Return every probe that the abilities allow; made once, hence not to be changed."""
    build = CaseBuilder(can, dtype)
    square = build.sizes(T_k=5)
    probes = [
        Probe("plain", plain_case(can, dtype)),
        Probe("square", build.case(2, square)),
        Probe("wide", build.case(9, build.sizes(d_head=12, d_v=6))),
        Probe("large", build.case(3, build.sizes(), gain=40.0)),
        Probe("long", build.case(4, _long_sizes(build, can))),
        Probe("long-square", build.case(10, _square_long(build, can))),
        Probe("overflow", build.case(5, build.sizes(), gain=400.0)),
        Probe("zero-queries", with_zero_queries(build.case(6, square))),
    ]
    if can.longest and can.wiring is not None:
        full = build.sizes(T_q=can.longest, T_k=can.longest, B=1)
        probes.append(Probe("full-length", build.case(18, full)))
    probes += _causal_probes(build, can, square)
    if can.mask_axes:
        probes += _mask_probes(build, can, square)
    if can.scale:
        probes.append(Probe("scale-argument", build.case(7, build.sizes()).but(scale=0.17)))
    if can.bias:
        probes += _bias_probes(build, square)
    if can.documents:
        documents = in_two_documents(build.case(8, build.sizes(T_q=6, T_k=6)))
        probes.append(Probe("documents", documents))
        probes.append(Probe("hidden-nan-documents", with_broken_document(documents), compared=False))
    if can.target_mask:
        case = build.case(71, square)
        real = torch.arange(case.q.shape[-2]) < torch.tensor([3, 1])[: case.q.shape[0], None]
        probes.append(Probe("target-masked", case.but(target_mask=real)))
    probes += _conduct_probes(build, can, square)
    # Scores of thousands are beyond what half precision can tell apart.
    beyond = {"low-causal", "huge-causal", "low-masked", "huge-masked"} if dtype.itemsize < 4 else set()
    return tuple(probe for probe in probes if probe.name not in beyond)


def _square_long(build: CaseBuilder, can: Abilities) -> Sizes:
    """More tokens than a small block, as many queries as keys."""
    return build.sizes(T_q=67, T_k=67, B=1, H=2 if can.grouped else 1, H_kv=1)


def _as_many_tokens_as_heads(build: CaseBuilder, wiring: Wiring) -> Sizes:
    """Some code that mixes up both axes runs only so; the heads of a module are given."""
    H = wiring.num_heads
    sources = {"self": 1, "cross": 2, "three": 3}[wiring.source]
    samples = max(1, wiring.capacity // sources // H)  # that leave room for so many tokens
    return build.sizes(B=min(4, samples), T_q=H, T_k=H)


def _long_sizes(build: CaseBuilder, can: Abilities) -> Sizes:
    """More keys than a block of 256 and no multiple of anything; square targets get 37, loops are slow."""
    long = {"T_q": 3, "T_k": 261} if can.rectangular else {"T_q": 37, "T_k": 37}
    return build.sizes(**long, B=1, H=2 if can.grouped else 1, H_kv=1)


def _causal_probes(build: CaseBuilder, can: Abilities, square: Sizes) -> list[Probe]:
    probes: list[Probe] = []
    if can.causal or can.always_causal:
        huge = build.case(17, square).but(causal=can.corner)
        probes.append(Probe("low-causal", with_huge_scores(huge, _LOW_SCORE)))
        probes.append(Probe("huge-causal", with_huge_scores(huge, can.max_score)))
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
        corner = can.corner if can.causal or can.always_causal else None
        window = case.but(window=3, window_ahead=can.window_ahead, causal=corner)
        probes.append(Probe("window", window))
        if can.causal:
            probes.append(Probe("window-alone", case.but(window=3, window_ahead=can.window_ahead_alone)))
        if can.mask_axes:
            probes.append(Probe("window-padding", build.masked(window, build.padding_mask(case))))
    return probes


def _mask_probes(build: CaseBuilder, can: Abilities, square: Sizes) -> list[Probe]:
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
        Probe("all-allowed", build.masked(full, build.full_mask(full))),
        Probe("equal-axes", build.masked(equal, build.random_mask(equal, 26))),
        Probe("zero-queries-masked", with_zero_queries(padded)),
        Probe("large-masked", build.masked(large, build.random_mask(large, 28))),
        Probe("low-masked", with_huge_scores(padded, _LOW_SCORE)),
        Probe("huge-masked", with_huge_scores(padded, can.max_score)),
        Probe("hidden-nan", with_hidden_nan(padded), compared=False),
        Probe("empty-row", _empty_row(build, square), compared=False),
    ]
    if can.wiring is not None:
        heads = build.case(24, _as_many_tokens_as_heads(build, can.wiring))
        probes.append(Probe("tokens-as-heads", build.masked(heads, build.random_mask(heads, 26))))
    if can.integer_mask:
        probes.append(Probe("integer-mask", masked, integer_mask=True, compared=False))
    if can.gradients:
        probes.append(Probe("gradients-masked", masked, backward=True))
        probes.append(Probe("gradients-empty-row", _empty_row(build, square), backward=True, compared=False))
    probes += _padded_probes(build, can)
    if can.causal or can.always_causal:
        # Left padding under the causal rule: the first queries have nothing to look at.
        case = build.case(29, square).but(causal=can.corner)
        mask = torch.arange(case.k.shape[-2]) >= 2
        mask = mask.expand(build.padding_mask(case).shape).clone()
        left_padded = case.but(allowed_mask=mask)
        probes.append(Probe("empty-row-causal", left_padded, compared=False))
        if can.gradients:
            probes.append(Probe("gradients-empty-row-causal", left_padded, backward=True, compared=False))
    return probes


def _padded_probes(build: CaseBuilder, can: Abilities) -> list[Probe]:
    """The same tokens without padding, and with two blank ones after them that are hidden."""
    sizes = build.sizes(T_k=7)
    if "T_k" not in can.mask_axes or sizes.T_k < 4 or can.one_source:
        return []
    whole = with_blank_end(build.case(72, sizes), 2)
    mask = build.full_mask(whole)
    mask[..., -2:] = False
    short = without_last(whole, 2)
    # Both with a mask: that giving one switches something else off is another matter.
    return [
        Probe("unpadded", build.masked(short, build.full_mask(short)), compared=False),
        Probe("padded", build.masked(whole, mask), compared=False),
    ]


def _empty_row(build: CaseBuilder, square: Sizes) -> Case:
    """One query of one sample may look nowhere; a mask without a query axis empties the whole sample."""
    case = build.case(31, square)
    case = build.masked(case, build.random_mask(case, 32))
    assert case.allowed_mask is not None
    mask = case.allowed_mask.clone()
    mask[-1, 0, min(2, mask.shape[2] - 1)] = False
    return case.but(allowed_mask=mask)


def _bias_probes(build: CaseBuilder, square: Sizes) -> list[Probe]:
    case = build.case(41, square)
    shape = (1, 1, case.q.shape[-2], case.k.shape[-2])
    bias = torch.randn(shape, generator=torch.Generator().manual_seed(42), dtype=torch.float64)
    return [Probe("bias", case.but(additive_bias=bias.to(case.q.dtype)))]


def _conduct_probes(build: CaseBuilder, can: Abilities, square: Sizes) -> list[Probe]:
    """How the target behaves: strides, repetition, neighbours, gradients, half precision."""
    case = build.case(51, build.sizes())
    probes = [
        Probe("strided", case, strided=True, compared=False),
        Probe("strided-contiguous", case, compared=False),
        Probe("repeat-1", case, compared=False),
        Probe("repeat-2", case, seed=1, compared=False),
    ]
    if can.wiring is not None and can.wiring.out:
        probes.append(Probe("out-negated", plain_case(can, build.dtype), out="negated", compared=False))
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
    if can.dropout is not None:
        # What is dropped is no matter of rounding, and half precision would blur it.
        exact = build if build.dtype.itemsize >= 4 else CaseBuilder(can, torch.float32)
        probes += _training_probes(exact, can)
    halves = {torch.float32: (torch.float16, torch.bfloat16)}.get(build.dtype, (build.dtype,))
    return probes + [
        probe for dtype in halves if dtype.itemsize == 2 for probe in _half_probes(can, square, dtype)
    ]


def _training_probes(build: CaseBuilder, can: Abilities) -> list[Probe]:
    """Each dropout alone under several seeds, with fewer keys than features: the shares can be solved for."""
    case = build.case(55, build.sizes(B=1, T_q=4, T_k=4))
    assert can.dropout is not None
    seeds = [
        Probe(f"training-{kind}-{n}", case, training=True, seed=n, compared=False, **others_off)
        for kind, others_off in list(can.dropout.each.items())[:_MOST_DROPOUTS]
        for n in range(8)
    ]
    mixed = can.wiring is not None and can.wiring.out
    return seeds + [replace(one, name=f"mixed-{one.name}", out="mixed") for one in seeds if mixed]


def _half_probes(can: Abilities, square: Sizes, dtype: torch.dtype) -> list[Probe]:
    probes: list[Probe] = []
    label = "half-" + str(dtype).removeprefix("torch.")
    build = CaseBuilder(can, dtype)
    wide = build.sizes(T_q=9, T_k=33, d_head=32)
    # Sums over many keys show where they are kept in half precision.
    many = build.sizes(
        B=1, H=2 if can.grouped else 1, H_kv=1, T_q=12 if can.rectangular else 65, T_k=515, d_head=32
    )
    if can.longest:
        many = replace(many, T_q=min(many.T_q, can.longest), T_k=min(many.T_k, can.longest))
    probes.append(Probe(label, build.case(61, wide), compared=False))
    summed = build.case(65, many)
    if not can.one_source:  # values of one sign: what is lost in a sum does not cancel
        summed = summed.but(v=summed.v + 2)
    probes.append(Probe(label + "-many", summed, compared=False))
    probes.append(Probe(label + "-large", build.case(62, wide, gain=8.0), compared=False))
    if can.mask_axes:
        case = build.case(63, square)
        probes.append(Probe(label + "-masked", build.masked(case, build.padding_mask(case)), compared=False))
    if can.causal:
        causal = build.case(64, square).but(causal=can.corner)
        probes.append(Probe(label + "-causal", causal, compared=False))
    return probes
