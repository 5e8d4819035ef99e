"""A text that the model has read: its tokens, the recorded attention, and what the model returned.

Maps travel as bytes. Small maps, one for each head, are means over buckets, one byte a cell on a scale of
square roots, so that weights far below one can still be seen. The map of one head has two bytes a weight.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softlookup.lab.outcomes import Outcome, top_predictions
from softlookup.model_texts import Encoded, Texts
from softlookup.viewer.head_measures import MEASURES, RowBlock, is_separator
from softlookup.viewer.token_text import shown

if TYPE_CHECKING:
    from softlookup.recording import RecordedCall, Recording

SMALL = 28  # cells along a side of a small map
_MEASURED_ROWS = 128  # queries that the numbers beside a head are means of
_SMALL_STEPS = 255
_STEPS, _HIDDEN = 65534, 65535  # codes of a large map: a weight of 1, and a key that is hidden


@dataclass(frozen=True, eq=False)
class Reading:
    """One text and what became of it. number: what the page calls it by."""

    number: int
    text: str
    target: str
    encoded: Encoded
    recording: Recording
    outcome: Outcome

    @property
    def calls(self) -> tuple[RecordedCall, ...]:
        """The calls of attention, in the order they happened."""
        return self.recording.calls

    def tokens_of(self, call: RecordedCall, texts: Texts) -> tuple[Encoded, Encoded]:
        """Return what stands at the queries and at the keys of a call."""
        source = self.encoded.source
        if source is None:
            return self.encoded, self.encoded
        if call.call.kind == "cross":
            return self.encoded, source
        side = source if texts.is_in_encoder(call.call.layer) else self.encoded
        return side, side


def facts_of(reading: Reading, texts: Texts, said: Callable[[str, int, int], None]) -> dict[str, Any]:
    """Return what the page shows of a reading: tokens, a small map of each head, numbers beside it.

    said: told how far this is, layer by layer
    """
    layers = []
    for i, call in enumerate(reading.calls):
        said("drawing maps", i, len(reading.calls))
        layers.append(_layer_facts(reading, call, texts))
    encoded = reading.encoded
    return {
        "reading": reading.number,
        "tokens": _shown_tokens(encoded),
        "source": None if encoded.source is None else _shown_tokens(encoded.source),
        "measures": [{"name": it.name, "how": it.how} for it in MEASURES],
        "layers": layers,
        "outcome": reading.outcome.kind,
        "at": _default_position(reading),
        "top": top_of(reading.outcome, _default_position(reading), texts),
    }


def map_facts(call: RecordedCall, head: int) -> dict[str, Any]:
    """Return the exact map of one head, with hidden keys marked."""
    weights = call.weights(heads=[head])[0]
    codes = (weights.clamp(0, 1) * _STEPS).round().to(torch.int32)
    codes[~call.allowed(heads=[head])[0]] = _HIDDEN
    return {
        "rows": len(codes),
        "columns": codes.shape[1],
        "codes": _base64(codes, bytes_each=2),
        "error": 0.5 / _STEPS,
    }


def _layer_facts(reading: Reading, recorded: RecordedCall, texts: Texts) -> dict[str, Any]:
    call = recorded.call
    pooled = recorded.pooled(min(SMALL, call.q_len), min(SMALL, call.k_len)).clamp(0, 1)
    codes = (pooled.sqrt() * _SMALL_STEPS).round().to(torch.int32)
    queries, keys = reading.tokens_of(recorded, texts)
    return {
        "layer": call.layer,
        "call": call.number,
        "kind": call.kind,
        "heads": call.num_heads,
        "size": [call.q_len, call.k_len],
        "cells": list(pooled.shape[1:]),
        "codes": _base64(codes, bytes_each=1),
        "queries_are": "tokens" if queries is reading.encoded else "source",
        "keys_are": "tokens" if keys is reading.encoded else "source",
        "measures": _measured(recorded, keys),
    }


def _measured(recorded: RecordedCall, keys: Encoded) -> list[list[float | None]]:
    """Return a number for each measure and head; None where a measure says nothing."""
    call = recorded.call
    rows = torch.linspace(0, call.q_len - 1, min(call.q_len, _MEASURED_ROWS)).round().long()
    block = RowBlock(
        recorded.weights(queries=rows.tolist()),
        recorded.allowed(queries=rows.tolist()),
        None if call.kind == "cross" else rows + (call.k_len - call.q_len),
        torch.tensor(keys.ids) if len(keys.ids) == call.k_len else None,
        torch.tensor([is_separator(it) for it in keys.tokens]) if len(keys.ids) == call.k_len else None,
    )
    return [_means(measure.of(block)) for measure in MEASURES]


def _means(by_row: Tensor) -> list[float | None]:
    means = by_row.nanmean(dim=-1).tolist()
    return [None if it != it else round(it, 4) for it in means]


def top_of(outcome: Outcome, at: int, texts: Texts) -> list[dict[str, Any]]:
    """Return what a run predicts at a position; nothing where there are only hidden states."""
    if outcome.kind == "states":
        return []
    log_p = outcome.at(at).log_softmax(-1)
    name = texts.class_name if outcome.kind == "classes" else (lambda it: shown(texts.token(it)))
    return top_predictions(log_p, log_p, name)


def _default_position(reading: Reading) -> int:
    """Return where a prediction is looked at first: a mask to be filled in, or the last token."""
    tokens = reading.encoded.tokens
    masked = [i for i, it in enumerate(tokens) if it in ("[MASK]", "<mask>")]
    return masked[0] if masked else len(tokens) - 1


def _shown_tokens(encoded: Encoded) -> dict[str, Any]:
    return {
        "ids": list(encoded.ids),
        "text": [shown(it) for it in encoded.tokens],
        "special": list(encoded.special),
    }


def _base64(codes: Tensor, bytes_each: int) -> str:
    """Return whole numbers as little-endian bytes, in order."""
    parts = [(codes.reshape(-1) >> (8 * i)) & 255 for i in range(bytes_each)]
    raw = torch.stack(parts, dim=-1).to(torch.uint8).reshape(-1)
    return base64.b64encode(bytes(raw.tolist())).decode("ascii")
