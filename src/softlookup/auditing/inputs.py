"""What a model is given: small inputs with a generator of their own, or those of the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from softlookup.auditing.question import Question
from softlookup.terms import SoftlookupError

LENGTHS = (12, 8, 6)  # of a sample, the first that the model takes; a third more must fit for padding
_ROOM = 4  # tokens that must fit beside them
_LONGER = 2  # so many tokens a source has more than its target
_SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "image_token_id")


@dataclass(frozen=True, eq=False)
class Reader:
    """Makes inputs. kind: token ids, numbers [B, T, d_model], or an input whose axes are not tokens.

    ids: ids that may be drawn;  pad: the id to pad with;  width: d_model;  shape: of one opaque sample
    given: tokens of the user, which samples are cut from;  source_reader: for what an encoder reads
    refused_source: what the model raised when the source was longer than the target; "" where it may be
    """

    kind: Literal["ids", "numbers", "opaque"]
    device: torch.device
    length: int = 0
    ids: tuple[int, ...] = ()
    pad: int = 0
    width: int = 0
    shape: tuple[int, ...] = ()
    given: Tensor | None = None
    source_reader: Reader | None = None
    refused_source: str = ""

    def tokens(self, samples: int, length: int, seed: int) -> Tensor:
        """Return [samples, length] ids, [samples, length, d_model] numbers, or [samples, ...]."""
        drawn = self._drawn(samples, length, seed)
        if self.given is None or seed:
            return drawn
        given = self.given.to(self.device)
        rows = [given[i % len(given)] for i in range(samples)] if len(given) >= samples else list(given)
        for i, row in enumerate(rows[:samples]):
            if self.kind == "opaque":
                drawn[i] = row
            else:
                drawn[i, : len(row)] = row[:length]
        return drawn

    def _drawn(self, samples: int, length: int, seed: int) -> Tensor:
        draw = torch.Generator().manual_seed(1000 + seed)
        if self.kind == "ids":
            ids = torch.tensor(self.ids)
            return ids[torch.randint(len(ids), (samples, length), generator=draw)].to(self.device)
        shape = (samples, length, self.width) if self.kind == "numbers" else (samples, *self.shape)
        return torch.randn(shape, generator=draw).to(self.device)

    def source(self, samples: int, target_length: int) -> Tensor:
        """Return what an encoder reads beside a target of a length: more, unless that is refused."""
        assert self.source_reader is not None
        length = target_length if self.refused_source else target_length + _LONGER
        return self.source_reader.tokens(samples, length, seed=7)

    def others(self, like: Tensor, seed: int) -> Tensor:
        """Return other tokens; no id stands where it stood before."""
        reader = self
        if like.is_floating_point():
            draw = torch.Generator().manual_seed(2000 + seed)
            return torch.randn(like.shape, generator=draw).to(like)
        ids = torch.tensor(reader.ids, device=like.device)
        place = torch.searchsorted(ids, like.clamp(int(ids[0]), int(ids[-1])))
        steps = torch.randint(1, max(len(ids), 2), like.shape, generator=torch.Generator().manual_seed(seed))
        return ids[(place + steps.to(like.device)) % len(ids)]

    def padding(self, samples: int, length: int) -> Tensor:
        """Return tokens to pad with: the pad id, or zeros."""
        if self.kind == "ids":
            return torch.full((samples, length), self.pad, device=self.device)
        return torch.zeros(samples, length, self.width, device=self.device)


def reader_of(model: nn.Module, call: Any, inputs: Any) -> tuple[Reader, dict[str, Any]]:
    """Return what makes inputs for a model, and further arguments that the user gave.

    Raises: SoftlookupError when no input was taken, with the last reason.
    """
    given, more = _split(inputs, call)
    refused = {}
    for reader in _candidates(model, call, given):
        if not (reason := _why_refused(model, call, reader, more)):
            return reader, more
        refused[reader] = reason
    for reader, reason in refused.items() if call.source else ():
        of_one_length = replace(reader, refused_source=reason)
        if not _why_refused(model, call, of_one_length, more):
            return of_one_length, more
    reasons, name = list(refused.values()), type(model).__name__
    raise SoftlookupError(
        f"audit: {name} could not be called.",
        expected="a model that takes token ids [B, T] or numbers [B, T, d_model]",
        got="; ".join(dict.fromkeys(reasons[-3:])) or "no argument to give tokens to",
        hint=f"audit({name.lower()}, inputs={{...}}) with the arguments of one forward",
    )


def _why_refused(model: nn.Module, call: Any, reader: Reader, more: dict[str, Any]) -> str:
    """Return what a model raises when it is given the inputs that a reader makes; "" for nothing."""
    length = reader.length + _ROOM
    source = reader.source(1, length) if call.source else None
    try:
        with torch.no_grad():
            call.ask(model, Question(reader.tokens(1, length, 0), source=source, more=more))
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
    return ""


def _split(inputs: Any, call: Any) -> tuple[Tensor | None, dict[str, Any]]:
    """Return the tokens of the user, and those arguments that no check has a word for."""
    if inputs is None:
        return None, {}
    if isinstance(inputs, Tensor):
        return inputs, {}
    if not isinstance(inputs, Mapping):
        raise SoftlookupError(
            "audit: the inputs could not be read.",
            expected="a tensor, or a mapping from argument names to values",
            got=type(inputs).__name__,
        )
    tokens = getattr(call, "tokens", "")
    ours = {
        getattr(call, name, "") for name in ("mask", "positions", "labels", "cache", "keep_cache", "weights")
    }
    ours |= {tokens, call.embeddings, getattr(call, "source", ""), getattr(call, "source_mask", "")}
    given = next((inputs[name] for name in (tokens, call.embeddings) if name and name in inputs), None)
    return given, {name: value for name, value in inputs.items() if name not in ours}


def _candidates(model: nn.Module, call: Any, given: Tensor | None) -> Iterator[Reader]:
    """Yield ways to make inputs, the likely ones first."""
    device = next((it.device for it in model.parameters()), torch.device("cpu"))
    config = getattr(model, "config", None)
    main = call.source or getattr(call, "tokens", "")
    opaque = _opaque_shape(config, main)
    if given is not None and given.is_floating_point() and given.dim() != 3:
        yield Reader("opaque", device, shape=tuple(given.shape[1:]), given=given)
    if opaque and not call.source:
        yield Reader("opaque", device, shape=opaque, given=given)
    source = Reader("opaque", device, shape=opaque) if opaque else None
    for length in LENGTHS:
        if hasattr(call, "tokens") and (given is None or not given.is_floating_point()):
            ids, pad = _ids(model)
            if ids:
                reader = Reader("ids", device, length, ids=ids, pad=pad, given=given)
                yield _with_source(reader, source or reader) if call.source else reader
        for width in [given.shape[-1]] if given is not None and given.is_floating_point() else _widths(model):
            reader = Reader("numbers", device, length, width=width, given=given)
            yield _with_source(reader, reader) if call.source else reader


def _with_source(reader: Reader, source: Reader) -> Reader:
    return replace(reader, source_reader=source)


def _ids(model: nn.Module) -> tuple[tuple[int, ...], int]:
    """Return ids that may be drawn, and the id to pad with."""
    config = getattr(model, "config", None)
    text: Any = (
        config.get_text_config() if config is not None and hasattr(config, "get_text_config") else config
    )
    tables = [it.num_embeddings for it in model.modules() if isinstance(it, nn.Embedding)]
    size = getattr(text, "vocab_size", None) or min(tables, default=0)
    special = {
        it
        for name in _SPECIAL
        for value in [getattr(text, name, None)]
        for it in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(it, int)
    }
    pad = getattr(text, "pad_token_id", None)
    ids = tuple(it for it in range(min(size, 1000)) if it not in special)
    return ids, pad if isinstance(pad, int) and 0 <= pad < size else 0


def _widths(model: nn.Module) -> list[int]:
    """Return sizes that d_model may have, the likely ones first."""
    attention = [it.embed_dim for it in model.modules() if isinstance(it, nn.MultiheadAttention)]
    norms = [it.normalized_shape[0] for it in model.modules() if isinstance(it, nn.LayerNorm)]
    linear = [it.in_features for it in model.modules() if isinstance(it, nn.Linear)]
    return list(dict.fromkeys([*attention[:1], *linear[:1], *norms[:1]]))


def _opaque_shape(config: Any, name: str) -> tuple[int, ...]:
    """Return the shape of one sample of an image or of sound, by its config; () for anything else."""
    if name == "pixel_values":
        size = getattr(config, "image_size", 0)
        side = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        return (getattr(config, "num_channels", 3), *side)
    if name == "input_features" and hasattr(config, "num_mel_bins"):
        return (config.num_mel_bins, 2 * getattr(config, "max_source_positions", 1500))
    return (4000,) if name == "input_values" else ()
