"""Attention of x-transformers, local-attention, torchtune, keras and flax."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
from row_of_a_package import H_KV, MEMORY, WIDTH, B, D, H, Row, S, T, alone, memory, tokens
from torch import nn


def x_transformers(**flags: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        return import_module("x_transformers.x_transformers").Attention(WIDTH, dim_head=D, heads=H, **flags)

    return build


def local(**flags: Any) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        module = import_module("local_attention.transformer")
        return module.LocalMHA(dim=WIDTH, dim_head=D, heads=H, causal=True, **flags)

    return build


def torchtune(causal: bool, rotary: bool = False) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        modules = import_module("torchtune.modules")
        return modules.MultiHeadAttention(
            embed_dim=WIDTH,
            num_heads=H,
            num_kv_heads=H_KV,
            head_dim=D,
            q_proj=nn.Linear(WIDTH, H * D, bias=False),
            k_proj=nn.Linear(WIDTH, H_KV * D, bias=False),
            v_proj=nn.Linear(WIDTH, H_KV * D, bias=False),
            output_proj=nn.Linear(H * D, WIDTH, bias=False),
            pos_embeddings=modules.RotaryPositionalEmbeddings(dim=D, max_seq_len=40) if rotary else None,
            max_seq_len=40,
            is_causal=causal,
        )

    return build


def keras(name: str, *sizes: int) -> Callable[[], Any]:
    def build() -> Any:
        layer = getattr(import_module("keras").layers, name)(*sizes, dropout=0.25)
        layer.build((B, T, WIDTH), (B, S, WIDTH))
        return layer

    return build


def flax_nnx() -> Any:
    nnx = import_module("flax.nnx")
    return nnx.MultiHeadAttention(H, WIDTH, decode=False, rngs=nnx.Rngs(0))


def flax_linen() -> Any:
    layer = import_module("flax.linen").MultiHeadDotProductAttention(num_heads=H)
    variables = layer.init(import_module("jax").random.key(0), tokens().numpy(), memory().numpy())
    return layer.bind(variables)


# how they are called


def cross(module: Any) -> Any:
    return module(tokens(), memory())


def to_itself(module: Any) -> Any:
    return module(tokens(), tokens())


def through_jax(module: Any) -> Any:
    asarray = import_module("jax.numpy").asarray
    answer = module(asarray(tokens().numpy()), asarray(memory().numpy()))
    return torch.from_numpy(import_module("numpy").array(answer))


ROWS = [
    # forward(x, context=None, mask=None, context_mask=None, attn_mask=None, ...): True = visible
    Row("x-transformers", x_transformers(), alone),
    Row("x-transformers causal", x_transformers(causal=True), alone),
    # In 2.31.10 Attend.forward hands everything on to flash_attn but `causal`: forward(x, causal=False) stays
    # causal, where the same layer without flash is not.
    Row("x-transformers flash", x_transformers(causal=True, flash=True), alone, bug="causal-unwanted"),
    Row(
        "x-transformers cross",
        x_transformers(dim_context=MEMORY),
        lambda m: m(tokens(), context=memory(MEMORY)),
    ),
    Row("x-transformers one kv head", x_transformers(causal=True, one_kv_head=True), alone),
    # In 2.31.10 Attend repeats them as "b (r kvh) n d": neighbouring query heads get different ones. A layer
    # that is trained so works; weights of a model that groups neighbours would be read wrongly.
    Row("x-transformers kv heads", x_transformers(kv_heads=H_KV), alone, bug="kv-heads-tiled"),
    Row("x-transformers qk norm", x_transformers(qk_norm=True), alone, note="qk-norm"),
    Row(  # the sum of score and bias is capped
        "x-transformers softclamp",
        x_transformers(softclamp_logits=True, logit_softclamp_value=5.0),
        alone,
        note="softcap",
    ),
    Row("x-transformers zero kv", x_transformers(add_zero_kv=True), alone, note="attention-sink"),
    # rotary positions inside; forward(x, mask=None): mask [B, T], True = a real token
    Row("local-attention in one block", local(window_size=64), alone, note="rotary-positions"),
    Row(  # a window of 3 shows 4 keys: itself and 3 before it
        "local-attention exact",
        local(window_size=3, exact_windowsize=True),
        alone,
        note="rotary-positions",
        contract={"window": 4},
    ),
    # forward(x, y, *, mask=None, input_pos=None): y is looked at; mask [B, T, S], True = visible;
    # no mask means causal where is_causal is set
    Row("torchtune causal", torchtune(causal=True), to_itself),
    Row("torchtune cross", torchtune(causal=False), cross),
    Row("torchtune rotary", torchtune(causal=True, rotary=True), to_itself, note="rotary-positions"),
    # call(query, value, key=None, ..., attention_mask=None, use_causal_mask=False): the value before the key;
    # attention_mask [B, T, S], True = visible
    Row("keras", keras("MultiHeadAttention", H, D), cross),
    Row("keras grouped", keras("GroupQueryAttention", D, H, H_KV), cross),
    # __call__(inputs_q, inputs_k=None, inputs_v=None, *, mask=None) of JAX arrays; mask [B, H or 1, T, S],
    # True = visible
    Row("flax nnx", flax_nnx, through_jax),
    Row("flax linen", flax_linen, through_jax),
]
