"""Models whose forward says by its names what it takes: transformers, and modules of one's own."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.auditing.question import Answer, Question

_TOKENS = ("input_ids", "idx", "tokens", "token_ids", "ids", "src", "x", "inputs", "input", "hidden_states")
_KEEPS = ("attention_mask",)  # True or 1 is a real token
_HIDES = ("src_key_padding_mask", "key_padding_mask")  # True is padding
_POSITIONS = ("position_ids", "positions", "input_pos")
_LABELS = ("labels", "targets", "target")
_CACHE = ("past_key_values", "cache", "past_kv", "kv_cache", "layer_past")


@dataclass(frozen=True)
class ByName:
    """How a model is called: the name of each argument it has, "" where it has none.

    tokens: the argument that is read (of the decoder, in an encoder-decoder); source: what its encoder reads
    embeddings: the same as numbers [B, T, d_model];  mask_hides: True in the mask means padding
    """

    tokens: str
    embeddings: str = ""
    mask: str = ""
    mask_hides: bool = False
    positions: str = ""
    labels: str = ""
    cache: str = ""
    keep_cache: str = ""
    weights: str = ""
    source: str = ""
    source_mask: str = ""

    words = "by the names of its arguments"
    batch_first = True

    def ask(self, model: nn.Module, question: Question) -> Answer:
        """Run one forward."""
        floating = question.tokens.is_floating_point() and self.embeddings
        given: dict[str, Any] = dict(question.more)
        if not question.tokens_from_labels:
            given[self.embeddings if floating else self.tokens] = question.tokens
        self._put(given, self.mask, _spelled(question.real, self.mask_hides))
        self._put(given, self.positions, question.positions)
        self._put(given, self.source, question.source)
        self._put(given, self.source_mask, _spelled(question.source_real, False))
        self._put(given, self.labels, question.labels)
        self._put(given, self.cache, question.cache)
        if self.keep_cache:
            given[self.keep_cache] = question.keep_cache
        if question.weights:
            given[self.weights] = True
        return answer_of(model(**given), question)

    @staticmethod
    def _put(given: dict[str, Any], name: str, value: Any) -> None:
        if name and value is not None:
            given[name] = value


def names_of(model: nn.Module) -> ByName:
    """Read off the signature of its forward what a model takes."""
    signature = inspect.signature(model.forward).parameters
    parameters = [it for it in signature if it != "self"]
    has = set(parameters)

    def first(names: tuple[str, ...]) -> str:
        return next((name for name in names if name in has), "")

    main = getattr(model, "main_input_name", "")
    tokens = main if main in has else first(_TOKENS) or (parameters[0] if parameters else "")
    config = getattr(model, "config", None)
    hands_on = any(it.kind is it.VAR_KEYWORD for it in signature.values())
    if hands_on and first(_CACHE) and hasattr(config, "use_cache"):
        has.add("use_cache")  # handed on, in **kwargs
    two_streams = "decoder_input_ids" in has and bool(getattr(config, "is_encoder_decoder", True))
    return ByName(
        tokens="decoder_input_ids" if two_streams else tokens,
        embeddings=first(("decoder_inputs_embeds",) if two_streams else ("inputs_embeds",)),
        mask=first(("decoder_attention_mask",) if two_streams else (*_KEEPS, *_HIDES)),
        mask_hides=not two_streams and not first(_KEEPS),
        positions=first(("decoder_position_ids",) if two_streams else _POSITIONS),
        labels=first(_LABELS),
        cache=first(_CACHE),
        keep_cache=first(("use_cache",)),
        weights="output_attentions"
        if hasattr(config, "output_attentions")
        else first(("output_attentions",)),
        source=tokens if two_streams else "",
        source_mask=first(("attention_mask",)) if two_streams else "",
    )


def answer_of(returned: Any, question: Question) -> Answer:
    """Read output, loss and cache out of whatever a forward returned."""
    if isinstance(returned, Tensor):
        return Answer(returned)
    if isinstance(returned, Mapping):
        found = {str(name): value for name, value in returned.items()}
        output = next(
            (found[name] for name in ("logits", "prediction_logits", "last_hidden_state") if name in found),
            None,
        )
        if output is None:
            output = _first_output(list(found.values()))
        cache = next((found[name] for name in _CACHE if found.get(name) is not None), None)
        return Answer(output, found.get("loss"), cache)
    values = list(returned)
    output = _first_output(values)
    loss = next((it for it in values if isinstance(it, Tensor) and it.dim() == 0), None)
    rest = [it for it in values if not isinstance(it, Tensor) and it is not None]
    return Answer(output, loss, rest[-1] if rest and question.keep_cache else None)


def _first_output(values: list[Any]) -> Tensor:
    return next(it for it in values if isinstance(it, Tensor) and it.is_floating_point() and it.dim() >= 2)


def _spelled(real: Tensor | None, hides: bool) -> Tensor | None:
    """Return a padding mask as the model spells it: bool, True = padding, or integers, 1 = real."""
    if real is None:
        return None
    return ~real if hides else real.to(torch.long)
