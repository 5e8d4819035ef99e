"""Attention classes of the package transformers, on tiny configurations.

With "eager", no mask means that all is visible. With "sdpa", no mask means causal where `module.is_causal` is
True. A mask that is given decides alone: additive, [B, 1, T_q, T_k]; "sdpa" takes bool too, True = visible.
All return (output, weights or None).
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from row_of_a_package import H_KV, WIDTH, B, D, H, Row, T, alone, angles, falling, memory, tokens, triangle
from torch import nn, zeros

NAMES = {"hidden_size": WIDTH, "num_attention_heads": H}
GROUPED = {**NAMES, "num_key_value_heads": H_KV, "head_dim": D, "num_hidden_layers": 2}
GPT2 = {"n_embd": WIDTH, "n_head": H, "n_positions": 40}
T5 = {"d_model": WIDTH, "num_heads": H, "d_kv": D}
EAGER, SDPA = {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}


def of(
    prefix: str, *arguments: Any, family: str = "", ends: str = "Attention Config", **settings: Any
) -> Any:
    """Return what builds PREFIXAttention(PREFIXConfig(**settings), *arguments)."""
    name, config = (prefix + end for end in ends.split())
    family = family or prefix.lower()

    def build() -> nn.Module:
        module = import_module(f"transformers.models.{family}.modeling_{family}")
        configuration = import_module(f"transformers.models.{family}.configuration_{family}")
        return getattr(module, name)(getattr(configuration, config)(**settings), *arguments)

    return build


def gpt_oss() -> nn.Module:
    module = of("GptOss", 0, family="gpt_oss", **GROUPED, **EAGER)()
    nn.init.normal_(module.sinks)  # the class leaves them uninitialised
    return module


def whisper(decoder: bool, how: dict[str, str]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        family = "transformers.models.whisper."
        config = import_module(family + "configuration_whisper").WhisperConfig(d_model=WIDTH, **how)
        attention = import_module(family + "modeling_whisper").WhisperAttention
        return attention(WIDTH, H, is_decoder=decoder, is_causal=decoder, layer_idx=0, config=config)

    return build


# how they are called


def rotated(module: nn.Module) -> Any:
    return module(tokens(), position_embeddings=angles(), attention_mask=None)


def rotated_halves(module: nn.Module) -> Any:
    cos, sin = angles()
    halves = cos[..., : D // 2], sin[..., : D // 2]
    return module(tokens(), position_embeddings=halves, attention_mask=None)


def partly_rotated(module: nn.Module) -> Any:
    return module(tokens(), attention_mask=None, position_embeddings=angles(module.rotary_ndims))


def cross(module: nn.Module) -> Any:
    return module(tokens(), key_value_states=memory())


def with_residual_and_alibi(module: nn.Module) -> Any:
    return module(tokens(), zeros(B, T, WIDTH), falling(), triangle())


def with_alibi(module: nn.Module) -> Any:
    return module(tokens(), alibi=falling(), attention_mask=triangle())


def rotated_with_mask(module: nn.Module) -> Any:
    return module(tokens(), alibi=None, attention_mask=triangle(), position_embeddings=angles())


#: T5 does not scale, and its `mask` is added: nothing in the class says what it holds.
T5_SAYS = {"scale": 1.0, "mask": "additive"}
GEMMA2 = {**GROUPED, "query_pre_attn_scalar": D, "attn_logit_softcapping": None}

ROWS = [
    Row("llama eager", of("Llama", 0, **GROUPED, **EAGER), rotated),
    Row("llama sdpa", of("Llama", 0, **GROUPED, **SDPA), rotated),
    Row("gpt2 eager", of("GPT2", **GPT2, **EAGER), alone),
    Row("gpt2 sdpa", of("GPT2", **GPT2, **SDPA), alone),
    Row(  # c_attn makes keys and values only, q_attn the queries
        "gpt2 cross",
        of("GPT2", True, 0, **GPT2, **EAGER),
        lambda m: m(tokens(), encoder_hidden_states=memory()),
    ),
    # the output layer is in the class BertSelfOutput
    Row("bert eager", of("Bert", ends="SelfAttention Config", **NAMES, **EAGER), alone),
    Row("bert sdpa", of("Bert", ends="SelfAttention Config", **NAMES, **SDPA), alone),
    # both of them, with the residual and LayerNorm
    Row("bert block", of("Bert", **NAMES, **EAGER), alone),
    Row("t5", of("T5", **T5, **EAGER), alone, contract=T5_SAYS),
    # adds relative_attention_bias, a table by distance
    Row("t5 with its bias", of("T5", True, **T5, **EAGER), alone, contract=T5_SAYS),
    Row("t5 cross", of("T5", is_decoder=True, **T5, **EAGER), cross, contract=T5_SAYS),
    # the window is in the mask that the model makes, not in the layer
    Row("mistral", of("Mistral", 0, **GROUPED, sliding_window=3, **EAGER), rotated),
    Row(
        "gemma2 softcap",
        of("Gemma2", 0, **{**GEMMA2, "attn_logit_softcapping": 5.0}, **EAGER),
        rotated,
        note="softcap",
    ),
    Row(  # its setting `scaling` declares the scale, so that no note has to tell of it
        "gemma2 scale",
        of("Gemma2", 0, **{**GEMMA2, "query_pre_attn_scalar": 12}, **SDPA),
        rotated,
        note="rotary-positions",
    ),
    # takes the cosines and sines of one half only, [B, T, d_head / 2]
    Row("gpt-oss", gpt_oss, rotated_halves, note="attention-sink"),
    # adds the residual that it is given; alibi is added to the scaled scores
    Row("bloom", of("Bloom", 0, hidden_size=WIDTH, n_head=H), with_residual_and_alibi),
    Row("whisper encoder", whisper(decoder=False, how=EAGER), alone),
    # with a memory `sdpa` would be causal as well: models build their cross-attention without `is_causal`
    Row("whisper decoder", whisper(decoder=True, how=SDPA), alone),
    Row("whisper cross", whisper(decoder=True, how=EAGER), cross),
    Row("qwen3", of("Qwen3", 0, **GROUPED, **EAGER), rotated, note="qk-norm"),
    Row("olmo2", of("Olmo2", 0, **GROUPED, **SDPA), rotated, note="qk-norm"),  # over all heads at once
    Row("modernbert", of("ModernBert", 0, **NAMES, **EAGER), rotated),
    Row("vit", of("ViT", **NAMES, **EAGER), alone),
    Row("clip", of("CLIP", ends="Attention VisionConfig", **NAMES, **SDPA), alone),
    Row("distilbert", of("DistilBert", ends="SelfAttention Config", dim=WIDTH, n_heads=H, **SDPA), alone),
    Row("opt", of("OPT", 0, **NAMES, **EAGER), alone),
    Row("phi3", of("Phi3", 0, **GROUPED, pad_token_id=0, **SDPA), rotated),
    # one head of keys and values; the mask must be given
    Row("falcon", of("Falcon", 0, **NAMES, **EAGER), rotated_with_mask),
    # alibi is scaled together with the scores: so the models were trained
    Row("falcon alibi", of("Falcon", 0, **NAMES, alibi=True, multi_query=False, **EAGER), with_alibi),
    # rows of the fused layer are grouped by head, and only a part of each head is rotated
    Row("gpt-neox", of("GPTNeoX", 0, family="gpt_neox", **NAMES, **EAGER), partly_rotated),
]
