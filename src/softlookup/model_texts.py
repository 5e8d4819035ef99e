"""Text to what a model is given, and back to tokens that can be shown: by the tokenizer beside the model.

Without a tokenizer the ids themselves are typed, as whole numbers.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.terms import SoftlookupError

MOST_CHARACTERS = 20_000
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "tokenizer.model")


@dataclass(frozen=True, eq=False)
class Encoded:
    """A text as a model takes it.

    given: arguments of one forward: by name, or in order where the model names its ids otherwise
    ids: [T];  tokens: what they stand for, to be shown
    special: positions of tokens that the tokenizer added or knows as special
    source: the same of what the encoder of an encoder-decoder reads
    """

    given: dict[str, Tensor] | tuple[Tensor, ...]
    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    special: tuple[int, ...] = ()
    source: Encoded | None = None

    @property
    def args(self) -> tuple[Tensor, ...]:
        """What is given in order."""
        return () if isinstance(self.given, dict) else self.given

    @property
    def kwargs(self) -> dict[str, Any]:
        """What is given by name."""
        return self.given if isinstance(self.given, dict) else {}


@dataclass(frozen=True, eq=False)
class Texts:
    """Reads texts for one model.

    tokenizer: None where ids are typed;  most: tokens that a text may have
    names: arguments that the model's forward takes;  doing: whose words errors are told in
    """

    model: nn.Module
    tokenizer: Any
    most: int
    names: frozenset[str]
    doing: str

    @property
    def encoder_decoder(self) -> bool:
        """Whether the model reads one text and writes another."""
        return bool(getattr(getattr(self.model, "config", None), "is_encoder_decoder", False))

    def encode(self, text: str, target: str = "") -> Encoded:
        """Return what the model is given for a text.

        target: what an encoder-decoder has written so far; other models have none

        Raises: SoftlookupError when there is nothing to read, ids are no ids, or it is too long.
        """
        if len(text) + len(target) > MOST_CHARACTERS:
            raise SoftlookupError(
                f"{self.doing}: this text is too long.",
                expected=f"at most {MOST_CHARACTERS} characters",
                got=str(len(text)),
            )
        source = self._encoded(text)
        if not self.encoder_decoder:
            return source
        start = getattr(self.model.config, "decoder_start_token_id", None)
        written = self._encoded(target, special=False).ids if target else ()
        decoder = self._of_ids((start if isinstance(start, int) else 0, *written))
        given = source.kwargs | {"decoder_input_ids": decoder.kwargs["input_ids"]}
        return Encoded(given, decoder.ids, decoder.tokens, decoder.special, source)

    def token(self, number: int) -> str:
        """Return what an id stands for."""
        if self.tokenizer is None:
            return str(number)
        return str(self.tokenizer.decode([number], clean_up_tokenization_spaces=False)) or str(
            self.tokenizer.convert_ids_to_tokens(number)
        )

    def single(self, text: str, instead_of: str) -> int:
        """Return the id of a text that is one token.

        instead_of: the token that it shall stand for; where that begins with a space, so may this

        Raises: SoftlookupError for a text that is several tokens, or none.
        """
        if self.tokenizer is None:
            ids: tuple[int, ...] = self._typed(text)
        else:
            spaced = [f" {text}"] if instead_of.startswith(" ") and not text.startswith(" ") else []
            tried = [
                tuple(self.tokenizer(it, add_special_tokens=False)["input_ids"]) for it in [*spaced, text]
            ]
            ids = next((it for it in tried if len(it) == 1), tried[0])
        if len(ids) != 1:
            raise SoftlookupError(
                f"{self.doing}: a token is replaced by one token.",
                expected="a text that this tokenizer reads as one token",
                got=" | ".join(self.token(it) for it in ids[:8]) or "no token",
                hint="edit the text above for anything longer",
            )
        return ids[0]

    def class_name(self, number: int) -> str:
        """Return what a class is called, by the config of the model."""
        names = getattr(getattr(self.model, "config", None), "id2label", None) or {}
        return str(names.get(number, f"class {number}"))

    def is_in_encoder(self, layer: str) -> bool:
        """Whether a layer belongs to the encoder of an encoder-decoder, by its path."""
        return any(it == "encoder" for it in layer.split("."))

    def _encoded(self, text: str, special: bool = True) -> Encoded:
        if self.tokenizer is None:
            return self._of_ids(self._typed(text))
        read: Mapping[str, Any] = self.tokenizer(text, add_special_tokens=special)
        encoded = self._of_ids(tuple(read["input_ids"]))
        more = {
            name: torch.tensor([value], device=self._device)
            for name, value in read.items()
            if name != "input_ids" and name in self.names
        }
        return Encoded(encoded.kwargs | more, encoded.ids, encoded.tokens, encoded.special)

    def _of_ids(self, ids: tuple[int, ...]) -> Encoded:
        if not ids:
            raise SoftlookupError(f"{self.doing}: there is no token in this text.", hint="type something")
        if len(ids) > self.most:
            raise SoftlookupError(
                f"{self.doing}: this text is too long.",
                expected=f"at most {self.most} tokens",
                got=f"{len(ids)} tokens",
            )
        known = set(getattr(self.tokenizer, "all_special_ids", ()))
        special = tuple(i for i, it in enumerate(ids) if it in known)
        row = torch.tensor([ids], device=self._device)
        by_name = "input_ids" in self.names or self.tokenizer is not None
        given: Any = {"input_ids": row} if by_name else (row,)
        return Encoded(given, ids, tuple(self.token(it) for it in ids), special)

    def _typed(self, text: str) -> tuple[int, ...]:
        """Read ids that were typed."""
        words = re.split(r"[\s,;]+", text.strip())
        size = vocabulary_size(self.model)
        ids = [int(it) for it in words if it.isascii() and it.isdigit() and len(it) < 10]
        wrong = [it for it in words if it and not (it.isascii() and it.isdigit() and len(it) < 10)]
        wrong += [str(it) for it in ids if size is not None and it >= size]
        if wrong:
            known = f"whole numbers from 0 to {size - 1}" if size else "whole numbers from 0"
            raise SoftlookupError(
                f"{self.doing}: these are no ids, and this model has no tokenizer to read a text.",
                expected=f"{known}, e.g. 3 1 4 1 5",
                got=wrong[0][:40],
            )
        return tuple(ids)

    @property
    def _device(self) -> torch.device:
        return next((it.device for it in self.model.parameters()), torch.device("cpu"))


def texts_for(model: nn.Module, path: str, most: int, *, doing: str) -> Texts:
    """Return what reads texts for a model: its tokenizer lies beside it, or ids are typed.

    path: where the model came from, as commands are given it;  doing: whose words errors are told in

    Raises: SoftlookupError for a model of images or sound, or a tokenizer that cannot be loaded.
    """
    reads = getattr(model, "main_input_name", "input_ids")
    if reads != "input_ids":
        raise SoftlookupError(
            f"{doing}: {type(model).__name__} reads no text.",
            expected="a model that takes token ids",
            got=f"one that takes {reads}",
            hint="softlookup.view shows its maps, softlookup.experiments changes them",
        )
    room = [most, _positions(model)]
    names = frozenset(inspect.signature(model.forward).parameters)
    return Texts(
        model, tokenizer_at(path, doing=doing), min(it for it in room if it is not None), names, doing
    )


def tokenizer_at(path: str, *, doing: str) -> Any:
    """Return the tokenizer in the folder or GGUF file of a model, from this disk only; None without one."""
    place = Path(path)
    in_folder = place.is_dir() and any((place / it).is_file() for it in _TOKENIZER_FILES)
    if not (in_folder or place.suffix == ".gguf") or importlib.util.find_spec("transformers") is None:
        return None
    import transformers

    folder, more = (place, {}) if place.is_dir() else (place.parent, {"gguf_file": place.name})
    try:
        return transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=False, **more
        )
    except Exception as problem:
        reason = str(problem).strip().splitlines()
        raise SoftlookupError(
            f"{doing}: the tokenizer at {path!r} could not be loaded.",
            got=f"{type(problem).__name__}: {reason[0] if reason else ''}",
        ) from problem


def vocabulary_size(model: nn.Module) -> int | None:
    """Return how many ids a model knows, by its config or its embedding; None where nothing says so."""
    config = getattr(model, "config", None)
    if config is not None and hasattr(config, "get_text_config"):
        config = config.get_text_config()
    size = getattr(config, "vocab_size", None)
    if isinstance(size, int):
        return size
    tables = [it.num_embeddings for it in model.modules() if isinstance(it, nn.Embedding)]
    return max(tables, default=None)


def _positions(model: nn.Module) -> int | None:
    """Return how many tokens a model has positions for, where its config says so."""
    config = getattr(model, "config", None)
    named = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len")
    sizes = [getattr(config, it, None) for it in named]
    return next((it for it in sizes if isinstance(it, int) and it > 0), None)
