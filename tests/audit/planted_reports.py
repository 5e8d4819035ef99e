"""Public reports of bugs that only a whole model shows, planted one by one in small models.

Each entry has a model as the report has it, its right twin, and ``shows``: a check of our own that says
whether it misbehaves as reported. ``model_reports.json`` says which rule is expected, and why some have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from planted_caches_and_losses import (
    BoolAdded,
    FirstNeverWritten,
    LooksAtTheRoom,
    LossCountsPadding,
    NumberScale,
    OneAfterTheOther,
    PlainSoftmax,
    Preallocated,
    ShiftedTwice,
    TensorScale,
    Together,
    bart_decoder,
    compiling_fails,
    ignored_labels_count,
    jetmoe,
    jetmoe_shifted_twice,
    sample_of_padding,
    sample_of_padding_gives_nan,
    swapping_does_not_swap,
)
from planted_masks import (
    AdjustedTheWrongWay,
    CausalAcross,
    CutToHeads,
    ManualPathLeaks,
    MaskOfTheTarget,
    MaskOfZeroVectors,
    NextIsVisible,
    PadOfTheSource,
    SameIdAndRealSees,
    SameIdSees,
    TargetSeesAll,
    TellsByWords,
    TwoPads,
    first_query_misses_last_source,
    pad_ids_move_text,
    padded_source_moves_answers,
    pads_of_the_target_are_seen,
    pads_see_pads,
    target_sees_future,
)
from planted_models import OTHER_PAD, PAD, Decoder, Encoder, Packed, Translator, Windowed, built, ids
from planted_positions import (
    Absolute,
    AbsoluteOfTheBatch,
    FirstLayerCounts,
    NoWindowInSteps,
    OffsetBeforeCache,
    OneMoreInPrompts,
    OtherPairs,
    StepsOfTheBatch,
    differs_from_the_source_model,
    left_padded_continuation_differs,
    left_padding_moves_text,
    llama,
    llama_steps_differ,
    llama_with_offset_before_cache,
    llama_without_itself,
)
from planted_questions import (
    T,
    first_document_moves_second,
    labels_are_shifted_by,
    padding_moves_text,
    sees_future,
    steps_differ,
)
from torch import Tensor

from softlookup.masks import Mask, causal, documents, padding_of, sliding_window


class Planted(NamedTuple):
    """wrong, right: build the model and its twin;  shows: whether a model misbehaves as reported.

    audit: options of ``softlookup.audit``
    rule: what the model promises, as ``softlookup.watch`` takes it; call: one forward to be watched
    """

    wrong: Callable[[], Any]
    right: Callable[[], Any]
    shows: Callable[[Any], bool]
    audit: dict[str, Any] = {}  # noqa: RUF012  (never written to)
    rule: Any = None
    call: Callable[[Any], Any] | None = None


def planted(wrong: type, right: type, shows: Callable[[Any], bool], **more: Any) -> Planted:
    return Planted(lambda: built(wrong), lambda: built(right), shows, **more)


def reads(*, steps: int = 0, **more: Any) -> Callable[[Any], Any]:
    """Read a text in one forward, its last ``steps`` tokens one by one with the cache."""

    def call(model: Any) -> None:
        text = ids(2, T)
        answer = model(text[:, : T - steps], **more, **({"use_cache": True} if steps else {}))
        for step in range(T - steps, T):
            answer = model(text[:, step : step + 1], cache=answer["cache"], use_cache=True)

    return call


def padded_text() -> Tensor:
    return torch.cat([ids(2, T), torch.full((2, 3), PAD)], dim=1)


def reads_padded(model: Any) -> None:
    text = padded_text()
    model(text, attention_mask=(text != PAD).long())


def translates(model: Any) -> None:
    target = ids(2, T)
    target[:, -3:] = OTHER_PAD
    model(ids(2, T), target)


def translates_padded(model: Any) -> None:
    source = ids(2, T)
    source[:, -3:] = PAD
    model(source, ids(2, T, seed=3))


def translated_target() -> Tensor:
    target = ids(2, T)
    target[:, -3:] = OTHER_PAD
    return target


def padded_source() -> Tensor:
    source = ids(2, T)
    source[:, -3:] = PAD
    return source


TWO_DOCUMENTS = torch.tensor([[0, 0, 0, 0, 1, 1, 1, 1, 1]]).expand(2, -1)
PACKED_POSITIONS = torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]]).expand(2, -1)
ONE_BY_ONE: Mask = causal("bottom-right")


CAUSAL = {"causal": True}
PACKED = {"causal": True, "packed": True}
LOOKS_AT_DOCUMENTS = {
    "rule": causal() & documents(TWO_DOCUMENTS),
    "call": reads(position_ids=PACKED_POSITIONS),
}

REPORTS: dict[str, Planted] = {
    "b048": planted(
        PadOfTheSource,
        TwoPads,
        pads_of_the_target_are_seen,
        audit=CAUSAL,
        rule={"layers.*.attention": causal() & padding_of(translated_target(), OTHER_PAD)},
        call=translates,
    ),
    "b049": planted(
        MaskOfZeroVectors,
        TellsByWords,
        pad_ids_move_text,
        rule=padding_of(padded_text(), PAD),
        call=lambda model: model(padded_text()),
    ),
    "b050": planted(
        SameIdSees,
        SameIdAndRealSees,
        pads_see_pads,
        rule=padding_of(padded_text(), PAD),
        call=reads_padded,
    ),
    "b052": planted(
        AdjustedTheWrongWay,
        Decoder,
        padding_moves_text,
        audit=CAUSAL,
        rule=causal() & padding_of(padded_text(), PAD),
        call=reads_padded,
    ),
    "b064": planted(NextIsVisible, Decoder, sees_future, audit=CAUSAL, rule=ONE_BY_ONE, call=reads()),
    "b066": planted(
        TargetSeesAll,
        Translator,
        target_sees_future,
        audit=CAUSAL,
        rule={"layers.*.attention": causal()},
        call=translates,
    ),
    "b067": planted(ManualPathLeaks, Decoder, sees_future, audit=CAUSAL, rule=causal(), call=reads()),
    "b071": planted(CausalAcross, Translator, first_query_misses_last_source, audit=CAUSAL),
    "b157": planted(OtherPairs, Decoder, differs_from_the_source_model, audit=CAUSAL),
    "b164": planted(OffsetBeforeCache, Decoder, steps_differ, audit=CAUSAL),
    "b164 in Llama": Planted(llama_with_offset_before_cache, llama, llama_steps_differ),
    "b165": planted(FirstLayerCounts, Decoder, steps_differ, audit=CAUSAL),
    "b167": planted(StepsOfTheBatch, Absolute, left_padded_continuation_differs, audit=CAUSAL),
    "b168": planted(AbsoluteOfTheBatch, Absolute, left_padding_moves_text, audit=CAUSAL),
    "b176": planted(
        OneMoreInPrompts, Windowed, steps_differ, audit=CAUSAL, rule=sliding_window(4), call=reads()
    ),
    "b180": planted(
        NoWindowInSteps, Windowed, steps_differ, audit=CAUSAL, rule=sliding_window(4), call=reads(steps=2)
    ),
    "b181": Planted(
        llama,
        lambda: built(Packed),
        lambda model: first_document_moves_second(model, ones=True),
        PACKED,
        LOOKS_AT_DOCUMENTS["rule"],
        reads(position_ids=PACKED_POSITIONS, attention_mask=torch.ones(2, T, dtype=torch.long)),
    ),
    "b182": planted(Absolute, Packed, first_document_moves_second, audit=PACKED, **LOOKS_AT_DOCUMENTS),
    "b184": planted(Decoder, Packed, first_document_moves_second, audit=PACKED, **LOOKS_AT_DOCUMENTS),
    "b202": planted(
        MaskOfTheTarget,
        Translator,
        padded_source_moves_answers,
        audit=CAUSAL,
        rule={"layers.*.cross_attention": padding_of(padded_source(), PAD)},
        call=translates_padded,
    ),
    "b205": planted(OneAfterTheOther, Together, swapping_does_not_swap),
    "b223": planted(LooksAtTheRoom, Preallocated, steps_differ, audit=CAUSAL),
    "b224": Planted(llama_without_itself, llama, llama_steps_differ),
    "b225": planted(FirstNeverWritten, Decoder, steps_differ, audit=CAUSAL),
    "b227": planted(CutToHeads, Encoder, padding_moves_text),
    "b230": planted(ShiftedTwice, Decoder, labels_are_shifted_by(2), audit=CAUSAL),
    "b231": Planted(jetmoe_shifted_twice, jetmoe, labels_are_shifted_by(2)),
    "b232": Planted(bart_decoder, jetmoe, labels_are_shifted_by(0)),
    "b233": planted(LossCountsPadding, Decoder, ignored_labels_count, audit=CAUSAL),
    "b235": planted(
        PlainSoftmax,
        Encoder,
        sample_of_padding_gives_nan,
        rule=padding_of(sample_of_padding(), PAD),
        call=lambda model: model(sample_of_padding()),
    ),
    "b236": planted(BoolAdded, Decoder, sees_future, audit=CAUSAL, rule=causal(), call=reads()),
    "b238": planted(TensorScale, NumberScale, compiling_fails, audit={"causal": True, "compiled": True}),
}
