"""The transformer layers of torch.nn, which are handed their masks and may have the batch second."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.auditing.question import Answer, Question


@dataclass(frozen=True)
class TorchEncoder:
    """nn.TransformerEncoder and its layer. causal: it is handed the causal mask."""

    batch_first: bool
    causal: bool = False
    words = "as torch.nn documents it"
    embeddings, mask = "src", "src_key_padding_mask"
    positions = labels = cache = keep_cache = weights = source = source_mask = ""

    def ask(self, model: nn.Module, question: Question) -> Answer:
        """Run one forward."""
        given: dict[str, Any] = {}
        if self.causal:
            name = "mask" if isinstance(model, nn.TransformerEncoder) else "src_mask"
            given[name] = _blocked(question.tokens.shape[1], question.tokens.device)
        if question.real is not None:
            given["src_key_padding_mask"] = ~question.real
        output = model(_axes(question.tokens, self.batch_first), **given)
        return Answer(_axes(output, self.batch_first))


@dataclass(frozen=True)
class TorchDecoder:
    """nn.TransformerDecoder, its layer, and nn.Transformer: a target with the causal mask, and a memory."""

    batch_first: bool
    whole: bool = False  # nn.Transformer: the encoder is in it
    words = "as torch.nn documents it, with a causal tgt_mask"
    embeddings, mask, source, source_mask = "tgt", "tgt_key_padding_mask", "memory", "memory_key_padding_mask"
    positions = labels = cache = keep_cache = weights = ""

    def ask(self, model: nn.Module, question: Question) -> Answer:
        """Run one forward."""
        assert question.source is not None
        given: dict[str, Any] = {"tgt_mask": _blocked(question.tokens.shape[1], question.tokens.device)}
        if question.real is not None:
            given["tgt_key_padding_mask"] = ~question.real
        if question.source_real is not None:
            given["memory_key_padding_mask"] = ~question.source_real
            if self.whole:
                given["src_key_padding_mask"] = ~question.source_real
        target, source = _axes(question.tokens, self.batch_first), _axes(question.source, self.batch_first)
        output = model(source, target, **given) if self.whole else model(target, source, **given)
        return Answer(_axes(output, self.batch_first))


def torch_layer(model: nn.Module, causal: bool) -> TorchEncoder | TorchDecoder | None:
    """Return how a layer of torch.nn is called; None for anything else."""
    if not isinstance(
        model,
        (
            nn.Transformer,
            nn.TransformerEncoder,
            nn.TransformerEncoderLayer,
            nn.TransformerDecoder,
            nn.TransformerDecoderLayer,
        ),
    ):
        return None
    attention = next(it for it in model.modules() if isinstance(it, nn.MultiheadAttention))
    if isinstance(model, (nn.TransformerEncoder, nn.TransformerEncoderLayer)):
        return TorchEncoder(attention.batch_first, causal)
    return TorchDecoder(attention.batch_first, isinstance(model, nn.Transformer))


def _axes(tensor: Tensor, batch_first: bool) -> Tensor:
    return tensor if batch_first else tensor.transpose(0, 1)


def _blocked(length: int, device: torch.device) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
