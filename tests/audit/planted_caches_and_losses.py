"""Public reports of caches, of losses, of what exporting and compiling made, and of two streams."""

from __future__ import annotations

from typing import Any

import torch
from planted_models import OTHER_PAD, PAD, VOCABULARY, WIDTH, Attention, Cache, Decoder, Encoder, ids
from planted_questions import T, apart, logits
from torch import Tensor, nn
from torch.nn import functional


class Preallocated(Decoder):
    """Keys lie in a buffer that is longer than the text."""

    ROOM, CAREFUL = 16, True

    def cached(self, cache: Cache) -> int:
        return int(cache["seen"])

    def remember(
        self, number: int, k: Tensor, v: Tensor, cache: Cache | None, kept: Cache
    ) -> tuple[Tensor, Tensor]:
        before, length = (0 if cache is None else self.cached(cache)), k.shape[2]
        shape = (*k.shape[:2], self.ROOM, k.shape[3])
        for name, new in (("k", k), ("v", v)):
            buffer = torch.zeros(shape, dtype=k.dtype) if cache is None else cache[f"{name}{number}"].clone()
            buffer[:, :, before : before + length] = new
            kept[f"{name}{number}"] = buffer
        kept["seen"] = torch.tensor(before + length)
        looked_at = before + length if self.CAREFUL or cache is None else self.ROOM
        return kept[f"k{number}"][:, :, :looked_at], kept[f"v{number}"][:, :, :looked_at]


class LooksAtTheRoom(Preallocated):
    """b223: a step attends to the whole buffer; its zeros have scores of 0, and weight exp(0)."""

    CAREFUL = False

    def allowed(self, q_len: int, k_len: int, real: Tensor, positions: Tensor) -> Tensor:
        if k_len == self.ROOM and q_len == 1:
            return torch.ones(1, 1, 1, k_len, dtype=torch.bool)
        return super().allowed(q_len, k_len, real, positions)


class FirstNeverWritten(Decoder):
    """b225: reading the prompt advances the cache by one token without writing it: it stays zero."""

    def remember(
        self, number: int, k: Tensor, v: Tensor, cache: Cache | None, kept: Cache
    ) -> tuple[Tensor, Tensor]:
        k, v = super().remember(number, k, v, cache, kept)
        if cache is None:
            for name in (f"k{number}", f"v{number}"):
                kept[name] = kept[name].clone()
                kept[name][:, :, 0] = 0
        return k, v


class ShiftedTwice(Decoder):
    """b230, b231: the model shifts the labels, and so does the loss that it calls."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().loss(logits[:, :-1], labels[:, 1:])


def jetmoe() -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.JetMoeConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=1,
        num_key_value_heads=2,
        kv_channels=8,
        intermediate_size=48,
        num_local_experts=2,
        num_experts_per_tok=2,
        pad_token_id=PAD,
        bos_token_id=OTHER_PAD,
    )
    return transformers.JetMoeForCausalLM(config).eval()


def jetmoe_shifted_twice() -> Any:
    model = jetmoe()
    once = model.loss_function

    def twice(logits: Tensor, labels: Tensor, *arguments: Any, **named: Any) -> Tensor:
        return once(logits[:, :-1].contiguous(), labels[:, 1:].contiguous(), *arguments, **named)

    model.loss_function = twice
    return model


def bart_decoder() -> Any:
    """b232: the class of transformers as it is."""
    import transformers

    torch.manual_seed(0)
    sizes = {
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
    }
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, encoder_attention_heads=4, decoder_attention_heads=4, pad_token_id=PAD, **sizes
    )
    return transformers.BartForCausalLM(config).eval()


class LossCountsPadding(Decoder):
    """b233: labels that say that they do not count are taken for tokens."""

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        return super().loss(logits, labels.clamp_min(PAD))


def ignored_labels_count(model: Any) -> bool:
    """The loss with padded labels is the mean over the real ones."""
    text = ids(2, T)
    labels = text.clone()
    labels[:, -3:] = -100
    with torch.no_grad():
        answer = model(text, labels=labels)
    found = answer["logits"][:, : T - 4].reshape(-1, VOCABULARY)
    expected = functional.cross_entropy(found, labels[:, 1 : T - 3].reshape(-1))
    return not bool(torch.isclose(answer["loss"], expected, rtol=1e-5))


class Unsafe(Attention):
    def mixed(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if allowed is not None:
            scores = scores.masked_fill(~allowed, float("-inf"))
        return scores.softmax(dim=-1) @ v


class PlainSoftmax(Encoder):
    """b235: what an exporter without the safe softmax writes: a row of -inf becomes 0 / 0."""

    ATTENTION = Unsafe


def sample_of_padding() -> Tensor:
    return torch.cat([ids(1, T), torch.full((1, T), PAD)])


def sample_of_padding_gives_nan(model: Any) -> bool:
    return bool(logits(model, sample_of_padding()).isnan().any())


class AddsItsMask(Attention):
    def mixed(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        assert allowed is not None
        return super().mixed(q, k, v, allowed.to(q.dtype))  # a float mask is added: 0 and 1 hide nothing


class BoolAdded(Decoder):
    """b236: what an exporter writes that does not turn a bool mask into numbers that hide."""

    ATTENTION = AddsItsMask


class TensorScale(nn.Module):
    """b238: scores are divided by a tensor of no axes, and a mask is added."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.k = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale: Any
        self.register_buffer("scale", torch.tensor(2.5))

    def forward(self, x: Tensor) -> Tensor:
        q, k = self.norm(x)[:, None], self.k(x)[:, None]  # [B, 1, T, d_model]
        place = torch.arange(x.shape[1])
        added = torch.where(place[:, None] >= place, 0.0, -1e4)
        return ((q @ k.transpose(-2, -1) / self.scale + added).softmax(dim=-1) @ q)[:, 0]


class NumberScale(TensorScale):
    def __init__(self) -> None:
        super().__init__()
        del self.scale
        self.scale = 2.5


def compiling_fails(model: Any) -> bool:
    torch.compiler.reset()
    try:
        logits(torch.compile(model), torch.randn(2, T, WIDTH))
    except torch._dynamo.exc.BackendCompilerFailed:
        return True
    return False


class OneAfterTheOther(nn.Module):
    """b205: two images look at each other, and the second one looks at features that were updated already."""

    together = False

    def __init__(self) -> None:
        super().__init__()
        self.cross = Attention()

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        new_x = self.looking(x, y)
        return new_x, self.looking(y, x if self.together else new_x)

    def looking(self, at: Tensor, across: Tensor) -> Tensor:
        own = self.cross
        return at + own(own.heads(at, own.q), own.heads(across, own.k), own.heads(across, own.v), None)


class Together(OneAfterTheOther):
    together = True


def swapping_does_not_swap(model: Any) -> bool:
    x, y = torch.randn(2, 1, T, WIDTH, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        first, second = model(x, y), model(y, x)
    return apart(first[0], second[1]) or apart(first[1], second[0])
