"""Public reports of positions and windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from planted_models import (
    LAYERS,
    OTHER_PAD,
    PAD,
    VOCABULARY,
    WIDTH,
    Cache,
    Decoder,
    Windowed,
    built,
    ids,
    rotated,
)
from planted_questions import T, apart, logits, padding_moves_text
from torch import Tensor, nn


def interleaved(x: Tensor, positions: Tensor) -> Tensor:
    """[B, H, T, d_head] turned so that neighbouring features are a pair."""
    order = torch.arange(x.shape[-1]).reshape(-1, 2).T.flatten()
    return rotated(x[..., order], positions)[..., order.argsort()]


class OtherPairs(Decoder):
    """b157: pairs of features as another library has them, with weights that were not permuted for it."""

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return interleaved(x, positions)


def differs_from_the_source_model(model: Any) -> bool:
    source = built(Decoder)
    source.load_state_dict(model.state_dict())
    return apart(logits(model, ids(2, T)), logits(source, ids(2, T)))


class OffsetBeforeCache(Decoder):
    """b164: the offset is read off the keys before those of the cache are put in front."""

    def places(self, positions: Tensor, number: int, cache: Cache | None) -> Tensor:
        return positions if cache is None else positions - positions[:, :1]


class FirstLayerCounts(Decoder):
    """b165: layer 0 advances the counter of seen tokens, and the layers above read it afterwards."""

    def places(self, positions: Tensor, number: int, cache: Cache | None) -> Tensor:
        return positions if cache is None or number == 0 else positions + positions.shape[1]


def llama() -> Any:
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        pad_token_id=PAD,
        bos_token_id=OTHER_PAD,
        eos_token_id=OTHER_PAD,
    )
    return transformers.LlamaForCausalLM(config).eval()


def llama_whose_layers(change: Callable[[Any, int, Tensor, dict[str, Any]], None]) -> Any:
    """A Llama in which ``change(model, number, x, arguments)`` edits what each attention layer is given."""
    model = llama()
    for number, layer in enumerate(model.model.layers):

        def before(it: Any, given: Any, named: dict[str, Any], number: int = number) -> Any:
            change(model, number, named["hidden_states"], named)
            return given, named

        layer.self_attn.register_forward_pre_hook(before, with_kwargs=True)
    return model


def cache_in(named: dict[str, Any]) -> Any:
    return named.get("cache", named.get("past_key_values"))


def llama_with_offset_before_cache() -> Any:
    def change(model: Any, number: int, x: Tensor, named: dict[str, Any]) -> None:
        if cache_in(named) is not None and cache_in(named).get_seq_length(number):
            named["position_embeddings"] = model.model.rotary_emb(x, torch.arange(x.shape[1])[None])

    return llama_whose_layers(change)


class GetsBeforeItAdds:
    """A cache whose update returns what was there before."""

    def __init__(self, cache: Any) -> None:
        self.cache = cache

    def update(self, k: Tensor, v: Tensor, number: int, *more: Any, **named: Any) -> tuple[Tensor, Tensor]:
        layers = self.cache.layers
        earlier = self.cache.get_seq_length(number)
        before = (layers[number].keys, layers[number].values) if earlier else None
        added: tuple[Tensor, Tensor] = self.cache.update(k, v, number, *more, **named)
        return added if before is None else before


def llama_without_itself() -> Any:
    """b224: a step gets the keys of the cache before its own are put there."""

    def change(model: Any, number: int, x: Tensor, named: dict[str, Any]) -> None:
        name = "cache" if "cache" in named else "past_key_values"
        if named.get(name) is not None:
            named[name] = GetsBeforeItAdds(named[name])

    return llama_whose_layers(change)


def llama_steps_differ(model: Any) -> bool:
    text, cache, found = ids(2, T), None, []
    with torch.no_grad():
        for token in text.split(1, dim=1):
            answer = model(token, past_key_values=cache, use_cache=True)
            found.append(answer.logits)
            cache = answer.past_key_values
    return apart(torch.cat(found, dim=1), logits(model, text, use_cache=False))


class Absolute(Decoder):
    """A decoder with learned positions, as GPT-2."""

    def __init__(self) -> None:
        super().__init__()
        self.place = nn.Embedding(64, WIDTH)

    def embedded(self, ids: Tensor, positions: Tensor) -> Tensor:
        return self.embedding(ids) + self.place(positions)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        return x


class AbsoluteOfTheBatch(Absolute):
    """b168: the same with learned positions, which shows without a cache."""

    def positions(self, given: Tensor | None, real: Tensor, before: int, ids: Tensor) -> Tensor:
        return torch.arange(before, before + ids.shape[1]).expand(len(ids), -1)


def left_padding_moves_text(model: Any) -> bool:
    return padding_moves_text(model, left=True)


class StepsOfTheBatch(Absolute):
    """b167: a step takes its place in the cache for the position of every sample, whatever its padding."""

    def positions(self, given: Tensor | None, real: Tensor, before: int, ids: Tensor) -> Tensor:
        if before == 0:
            return super().positions(given, real, before, ids)
        return torch.arange(before, before + ids.shape[1]).expand(len(ids), -1)


def left_padded_continuation_differs(model: Any) -> bool:
    """A prompt with padding on the left goes on by one token with its cache, as it does alone."""
    text, pads = ids(2, T), torch.full((2, 3), PAD)
    padded = torch.cat([pads, text], dim=1)
    real = torch.ones_like(padded)
    real[:, :3] = 0
    with torch.no_grad():
        first = model(padded[:, :-1], attention_mask=real[:, :-1], use_cache=True)
        last = model(padded[:, -1:], attention_mask=real, cache=first["cache"], use_cache=True)["logits"]
    return apart(last, logits(model, text)[:, -1:])


class OneMoreInPrompts(Windowed):
    """b176: the mask of a prompt shows one key more than the cache keeps."""

    def window(self, q_len: int) -> int:
        return self.WINDOW + (q_len > 1)


class NoWindowInSteps(Windowed):
    """b180: a single query is answered without a mask."""

    def allowed(self, q_len: int, k_len: int, real: Tensor, positions: Tensor) -> Tensor:
        if q_len == 1:
            return Decoder.allowed(self, q_len, k_len, real, positions)
        return super().allowed(q_len, k_len, real, positions)
