"""Small right models whose parts can be replaced one by one: where public reports are planted.

Every method below ``forward`` is one decision that a report got wrong. A planted model is a subclass with one
of them written as the report has it; the class it comes from is right, and is its twin.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS = 24, 16, 2, 2
D_HEAD = WIDTH // HEADS
PAD, OTHER_PAD = 0, 1

Cache = dict[str, Tensor]  # "k0", "v0", ... of each layer, [B, H, T, d_head]


class Attention(nn.Module):
    """Self- or cross-attention of one layer; who sees whom and what is remembered is the model's to say."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def heads(self, x: Tensor, projection: nn.Linear) -> Tensor:
        return projection(x).unflatten(-1, (HEADS, D_HEAD)).transpose(1, 2)  # [B, T, C] -> [B, H, T, d_head]

    def forward(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        return self.out(
            self.mixed(q, k, v, allowed).transpose(1, 2).flatten(2)
        )  # [B, H, T, d_head] -> [B, T, C]

    def mixed(self, q: Tensor, k: Tensor, v: Tensor, allowed: Tensor | None) -> Tensor:
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)


class Layer(nn.Module):
    def __init__(self, kind: type[Attention], cross: bool = False) -> None:
        super().__init__()
        self.attention, self.norm = kind(), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))
        if cross:
            self.cross_attention, self.cross_norm = kind(), nn.LayerNorm(WIDTH)


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """[B, H, T, d_head] turned by positions [B, T]: feature i with feature i + d_head / 2, as in Llama."""
    rates = 100.0 ** (-torch.arange(D_HEAD // 2) / (D_HEAD // 2))
    angles = positions[:, None, :, None] * rates  # [B, 1, T, d_head / 2]
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class Decoder(nn.Module):
    """A language model with rotary positions, a cache and a loss.

    attention_mask: [B, T_k], 1 = a real token, of the cached tokens as well;  labels: the tokens themselves
    """

    ATTENTION = Attention

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.layers = nn.ModuleList(Layer(self.ATTENTION) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
        cache: Cache | None = None,
        use_cache: bool = False,
    ) -> dict[str, Any]:
        before = 0 if cache is None else self.cached(cache)
        kept: Cache = {}
        batch, length = input_ids.shape
        real = torch.ones(batch, before + length) if attention_mask is None else attention_mask
        positions = self.positions(position_ids, real, before, input_ids)
        x = self.embedded(input_ids, positions)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, Layer)
            x = x + self.attention(layer, number, layer.norm(x), positions, real.bool(), cache, kept)
            x = x + layer.mlp(x)
        logits = self.head(x)
        loss = None if labels is None else self.loss(logits, labels)
        return {"logits": logits, "loss": loss, "cache": kept if use_cache else None}

    def attention(
        self,
        layer: Layer,
        number: int,
        x: Tensor,
        positions: Tensor,
        real: Tensor,
        cache: Cache | None,
        kept: Cache,
    ) -> Tensor:
        own = layer.attention
        q, k, v = (own.heads(x, it) for it in (own.q, own.k, own.v))
        places = self.places(positions, number, cache)
        q, k = self.rotate(q, places), self.rotate(k, places)
        k, v = self.remember(number, k, v, cache, kept)
        allowed = self.allowed(x.shape[1], k.shape[2], real, positions)
        return own(q, k, v, allowed)

    # ---- what a report may have got wrong

    def embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.embedding(ids)

    def positions(self, given: Tensor | None, real: Tensor, before: int, ids: Tensor) -> Tensor:
        """[B, T]: those that were given, else the number of real tokens before each."""
        if given is not None:
            return given
        return (real.long().cumsum(1) - 1).clamp_min(0)[:, before : before + ids.shape[1]]

    def places(self, positions: Tensor, number: int, cache: Cache | None) -> Tensor:
        """[B, T]: the positions that layer ``number`` rotates by."""
        return positions

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return rotated(x, positions)

    def cached(self, cache: Cache) -> int:
        """How many tokens were read before."""
        return cache["k0"].shape[2]

    def remember(
        self, number: int, k: Tensor, v: Tensor, cache: Cache | None, kept: Cache
    ) -> tuple[Tensor, Tensor]:
        """Return the keys and values that are looked at, and keep what later tokens need."""
        if cache is not None:
            k = torch.cat([cache[f"k{number}"], k], dim=2)
            v = torch.cat([cache[f"v{number}"], v], dim=2)
        kept[f"k{number}"], kept[f"v{number}"] = k, v
        return k, v

    def allowed(self, q_len: int, k_len: int, real: Tensor, positions: Tensor) -> Tensor:
        """Bool [B, 1, T_q, T_k]: earlier tokens and itself, and no padding."""
        causal = torch.ones(q_len, k_len, dtype=torch.bool).tril(k_len - q_len)
        return causal & real[:, None, None, :k_len]

    def loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Every answer is compared with the next token; labels of -100 do not count."""
        return functional.cross_entropy(
            logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100
        )


class Windowed(Decoder):
    """A decoder whose queries see WINDOW keys, their own among them."""

    WINDOW = 4

    def allowed(self, q_len: int, k_len: int, real: Tensor, positions: Tensor) -> Tensor:
        causal = super().allowed(q_len, k_len, real, positions)
        return causal & torch.ones(q_len, k_len, dtype=torch.bool).triu(
            k_len - q_len - self.window(q_len) + 1
        )

    def window(self, q_len: int) -> int:
        """How many keys a query sees when ``q_len`` of them are asked at once."""
        return self.WINDOW


class Packed(Decoder):
    """A decoder that keeps documents apart: a position that does not go up by one begins another."""

    def allowed(self, q_len: int, k_len: int, real: Tensor, positions: Tensor) -> Tensor:
        causal = super().allowed(q_len, k_len, real, positions)
        if q_len != k_len:
            return causal
        documents = (positions.diff(dim=1, prepend=positions[:, :1] - 1) != 1).cumsum(1)
        documents = documents * real.all(dim=1, keepdim=True)  # padding begins no document
        return causal & (documents[:, None, :, None] == documents[:, None, None, :])


class Encoder(nn.Module):
    """An encoder that hides its padding, told by ``attention_mask`` or by the id of padding."""

    ATTENTION = Attention

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, padding_idx=PAD)
        self.place = nn.Embedding(64, WIDTH)
        self.layers = nn.ModuleList(Layer(self.ATTENTION) for _ in range(LAYERS))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        words = self.embedding(input_ids)
        x = words + self.place(torch.arange(input_ids.shape[1]))
        real = (input_ids != PAD) if attention_mask is None else attention_mask.bool()
        allowed = self.allowed(real, words, x)
        for layer in self.layers:
            assert isinstance(layer, Layer)
            own, normed = layer.attention, layer.norm(x)
            q, k, v = (own.heads(normed, it) for it in (own.q, own.k, own.v))
            x = x + own(q, k, v, allowed)
            x = x + layer.mlp(x)
        return x

    def allowed(self, real: Tensor, words: Tensor, x: Tensor) -> Tensor | None:
        """Bool [B, 1, T or 1, T]: all keys but padding."""
        return real[:, None, None, :]


class Translator(nn.Module):
    """An encoder-decoder: the target sees its own past, and the source but its padding."""

    ATTENTION = Attention
    SOURCE_PAD = TARGET_PAD = PAD

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.place = nn.Embedding(64, WIDTH)
        self.encoder = Layer(self.ATTENTION)
        self.layers = nn.ModuleList(Layer(self.ATTENTION, cross=True) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(
        self,
        input_ids: Tensor,
        decoder_input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        source_real = (input_ids != self.SOURCE_PAD) if attention_mask is None else attention_mask.bool()
        own = self.encoder.attention
        memory = self.with_places(input_ids)
        normed = self.encoder.norm(memory)
        q, k, v = (own.heads(normed, it) for it in (own.q, own.k, own.v))
        memory = memory + own(q, k, v, source_real[:, None, None, :])
        x = self.with_places(decoder_input_ids)
        for layer in self.layers:
            assert isinstance(layer, Layer)
            own, normed = layer.attention, layer.norm(x)
            q, k, v = (own.heads(normed, it) for it in (own.q, own.k, own.v))
            real = self.target_real(decoder_input_ids, decoder_attention_mask)
            x = x + own(q, k, v, self.target_allowed(real))
            own = layer.cross_attention
            q = own.heads(layer.cross_norm(x), own.q)
            k, v = own.heads(memory, own.k), own.heads(memory, own.v)
            x = x + own(q, k, v, self.cross_allowed(source_real, real))
            x = x + layer.mlp(x)
        return self.head(x)

    def with_places(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) + self.place(torch.arange(ids.shape[1]))

    def target_real(self, ids: Tensor, given: Tensor | None) -> Tensor:
        """Bool [B, T_q]: True = a real token of the target."""
        return (ids != self.TARGET_PAD) if given is None else given.bool()

    def target_allowed(self, real: Tensor) -> Tensor:
        """Bool [B, 1, T_q, T_q]: earlier tokens of the target and itself, and no padding."""
        causal = torch.ones(real.shape[1], real.shape[1], dtype=torch.bool).tril()
        return causal & real[:, None, None, :]

    def cross_allowed(self, source_real: Tensor, target_real: Tensor) -> Tensor | None:
        """Bool [B, 1, T_q or 1, T_k]: the source but its padding."""
        return source_real[:, None, None, :]


def built(model_class: type[nn.Module]) -> Any:
    """A model of random weights that are large enough for attention to choose."""
    torch.manual_seed(0)
    model = model_class()
    model.config = SimpleNamespace(vocab_size=VOCABULARY, pad_token_id=PAD, bos_token_id=OTHER_PAD)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.5)
    if (
        isinstance(getattr(model, "embedding", None), nn.Embedding)
        and model.embedding.padding_idx is not None
    ):
        with torch.no_grad():
            model.embedding.weight[model.embedding.padding_idx] = 0
    return model.eval()


def ids(batch: int, length: int, seed: int = 0) -> Tensor:
    """Token ids [B, T], none of them 0 or 1, which are for padding."""
    return torch.randint(2, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))
