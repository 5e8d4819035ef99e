"""The model that is audited: how it is called, what it is given, and how exactly its answers repeat."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from softlookup.auditing.by_name import ByName, names_of
from softlookup.auditing.inputs import Reader, reader_of
from softlookup.auditing.question import Answer, Question
from softlookup.auditing.torch_layers import TorchDecoder, TorchEncoder, torch_layer
from softlookup.live.coverage import one_holds_the_other

T = TypeVar("T")

SAMPLES = 3
_LEAST_TOLERANCE = 2e-5  # of the largest number: rounding of float32 in another order
_MOST_TOLERANCE = 1e-3
_SPREAD = 30  # rounding in two different shapes may differ by that much more than in the one measured


@dataclass(eq=False)
class Subject:
    """A model together with the way to ask it.

    causal: it promises that no token sees a later one (the target, in an encoder-decoder)
    packed: the user says that documents are kept apart by position ids that start anew
    compiled: compiled paths are asked too, which takes a compiler and minutes
    silent: neither the user nor the model says whether a token may see later ones
    """

    model: nn.Module
    call: ByName | TorchEncoder | TorchDecoder
    reader: Reader
    causal: bool
    packed: bool = False
    compiled: bool = False
    silent: bool = False
    more: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)

    # ---- what it is given

    @property
    def length(self) -> int:
        """How many tokens a sample has; a few more fit."""
        return self.reader.length

    @cached_property
    def tokens(self) -> Tensor:
        """[3, T] ids or [3, T, d_model] numbers: the text of every check."""
        return self.reader.tokens(SAMPLES, self.length, seed=0)

    @cached_property
    def source(self) -> Tensor | None:
        """What the encoder reads, [3, S], longer than the target where it may be; None without an encoder."""
        return self.reader.source(SAMPLES, self.length) if self.call.source else None

    def other_tokens(self, like: Tensor, seed: int = 1) -> Tensor:
        """Return other tokens of the same shape; none stands where it stood before."""
        return self.reader.others(like, seed)

    def padding(self, samples: int, length: int) -> Tensor:
        """Return tokens to pad with."""
        return self.reader.padding(samples, length)

    def question(self, tokens: Tensor | None = None, samples: Tensor | None = None) -> Question:
        """Return the plain question about tokens; without tokens about those of every check.

        samples: which sources the samples have, where there is an encoder; as many as there are tokens
        """
        if tokens is None:
            return self.plain_question
        if self.source is None:
            return Question(tokens, more=self.more)
        chosen = torch.arange(len(tokens)) if samples is None else samples
        return Question(tokens, source=self.source[chosen.to(self.source.device)], more=self.more)

    @cached_property
    def plain_question(self) -> Question:
        """The question about the tokens of every check."""
        return Question(self.tokens, source=self.source, more=self.more)

    # ---- what it answers

    def remembered(self, what: str, measure: Callable[[], T]) -> T:
        """Return what was measured under this name before, or measure it: several checks ask for the same."""
        if what not in self.memory:
            self.memory[what] = measure()
        return cast(T, self.memory[what])

    def ask(self, question: Question) -> Answer:
        """Run one forward without gradients."""
        with torch.no_grad():
            return self.call.ask(self.model, question)

    def ask_with_graph(self, question: Question) -> Answer:
        """Run one forward through which gradients flow."""
        with torch.enable_grad():
            return self.call.ask(self.model, question)

    @cached_property
    def plain(self) -> Answer:
        """The answer to the plain question."""
        return self.ask(self.plain_question)

    @property
    def by_token(self) -> bool:
        """Say whether it answers for each token, not for a sample as a whole."""
        output = self.plain.output
        return output.dim() >= 3 and output.shape[1] == self.tokens.shape[1] and self.reader.kind != "opaque"

    @property
    def answered(self) -> int:
        """How many rows of the output belong to a sample; the tokens, unless these are no tokens."""
        output = self.plain.output
        return output.shape[1] if self.reader.kind == "opaque" and output.dim() >= 3 else self.tokens.shape[1]

    @cached_property
    def tolerance(self) -> float:
        """How much two right answers may differ, relative to the largest number.

        Measured: the same sample alone and three times over, which changes the shapes of the products only.
        """
        one = torch.zeros(1, dtype=torch.long)
        alone = self.ask(self.question(self.tokens[:1], one)).output
        thrice = self.ask(self.question(self.tokens[:1].repeat_interleave(3, 0), one.repeat(3))).output
        noise = float((alone - thrice[1:2]).abs().max() / alone.abs().max().clamp_min(1e-30))
        if math.isnan(noise):
            return _LEAST_TOLERANCE
        return min(max(_LEAST_TOLERANCE, _SPREAD * noise), _MOST_TOLERANCE)

    # ---- what it is

    @property
    def config(self) -> Any:
        """The config of a transformers model, or whatever the model keeps under that name."""
        return getattr(self.model, "config", None)

    @property
    def attention_modules(self) -> dict[str, nn.Module]:
        """Modules that are called attention, the innermost ones: path -> module."""
        called = {
            path: module
            for path, module in self.model.named_modules()
            if any(word in type(module).__name__.lower() for word in ("attention", "attn", "mha"))
        }
        return {
            path: module
            for path, module in called.items()
            if not any(other.startswith(f"{path}.") for other in called)
        }

    def attends(self, path: str) -> bool:
        """Say whether a module is called attention, lies inside one that is, or holds one."""
        return any(one_holds_the_other(path, it) for it in self.attention_modules)


def subject_of(model: nn.Module, inputs: Any, causal: bool | None, packed: bool, compiled: bool) -> Subject:
    """Find out how a model is called.

    Raises: SoftlookupError when no way was found.
    """
    promised = is_causal(model) if causal is None else causal
    layer = torch_layer(model, promised)
    call = layer or names_of(model)
    reader, more = reader_of(model, call, inputs)
    silent = causal is None and layer is None and not promised and not _of_known_kind(model)
    promised |= isinstance(call, TorchDecoder)
    return Subject(model, call, reader, promised, packed, compiled, silent, more)


def _kind(model: nn.Module) -> str | None:
    """Return which kind of model of transformers it says it is."""
    return getattr(getattr(model, "config", None), "model_type", None)


def _of_known_kind(model: nn.Module) -> bool:
    """Say whether it is one of the kinds of transformers, not one that somebody made on top of them."""
    if _kind(model) is None:
        return False
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return _kind(model) in CONFIG_MAPPING_NAMES


def is_causal(model: nn.Module) -> bool:
    """Say whether a model promises that no token sees a later one, by what kind of model it says it is."""
    config: Any = getattr(model, "config", None)
    if _kind(model) is None:
        return callable(getattr(model, "generate", None))
    if getattr(config, "is_encoder_decoder", False):
        return True
    from transformers.models.auto import modeling_auto as kinds

    if not getattr(config, "is_causal", True):
        return False
    if getattr(config, "is_decoder", False):
        return True
    decoders, encoders = kinds.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, kinds.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return config.model_type in decoders and config.model_type not in encoders
