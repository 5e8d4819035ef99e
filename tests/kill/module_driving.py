"""How each module style is built and called, and what it must answer by a plain computation in float64."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from module_calls import (
    Ask,
    Outputs,
    bert,
    cached,
    gpt,
    lens,
    mha,
    negated,
    one_path,
    post_norm,
    separate,
    spread,
)
from module_plain import Roles, alibi, by_head, by_parameter, fused, interleaved, lookup, of, to_out
from torch import Tensor, nn


@dataclass(frozen=True)
class Style:
    """How a module style is built and called, where its weights lie, and what it can be asked.

    can: of "keys", "integer keys", "mask", "queries", "bias", "documents", "causal", "memory", "past",
        "scale" (the constructor's), "scale argument"; the others are facts about it
    finish: from the mixed and projected heads and the ask to the output
    """

    name: str
    sizes: dict[str, Any]
    call: Callable[[nn.Module, Ask], Outputs]
    roles: Callable[[Any, int], Roles]
    can: frozenset[str]
    d_model: int = 12
    d_memory: int = 12
    heads: int = 3
    window: str = ""  # the constructor's argument that says how many keys are seen
    bias: Callable[[int, int], Tensor] | None = None
    rotary: str = ""  # "half" or "pairs"
    empty: str = "zero"  # what a query that may look nowhere mixes
    training: str = "dropout"  # the constructor's dropout arguments, in order of use
    finish: Callable[[nn.Module, Ask, Tensor], Tensor] = lambda layer, ask, output: output

    def build(self, module: ModuleType, ask: Ask, **options: Any) -> nn.Module:
        """Return a layer whose weights depend on their names and shapes alone, in the ask's dtype."""
        given = {**self.sizes, **ask.options, **options}
        if self.name == "CausalSelfAttention":
            layer = module.CausalSelfAttention(module.GPTConfig(**given))
        else:
            layer = getattr(module, self.name)(**given)
        with torch.no_grad():
            for name, parameter in layer.named_parameters():
                noise = torch.Generator().manual_seed(zlib.crc32(name.encode()))
                fresh = torch.randn(parameter.shape, generator=noise)
                width = parameter.shape[-1] if parameter.dim() == 2 else parameter.shape[-2:-1].numel()
                parameter.copy_(fresh * width**-0.5 if parameter.dim() > 1 else 1 + fresh * 0.3)
                if ask.unbiased and "bias" in name:
                    parameter.zero_()
        return layer.to(ask.x.dtype).eval()

    def right(self, layer: nn.Module, ask: Ask) -> tuple[Tensor, Tensor]:
        """Return output and weights of the plain computation with the layer's weights, in float64."""
        return lookup(self, layer, ask)


def _zero_padding(layer: nn.Module, ask: Ask, output: Tensor) -> Tensor:
    return output if ask.queries is None else output.masked_fill(~ask.queries[..., None], 0.0)


def _residual_norm(layer: nn.Module, ask: Ask, output: Tensor) -> Tensor:
    norm = layer.layer_norm
    added = output + ask.x.double()
    centred = added - added.mean(dim=-1, keepdim=True)
    deviation = (centred.square().mean(dim=-1, keepdim=True) + norm.eps).sqrt()
    return centred / deviation * norm.weight.double() + norm.bias.double()


def _can(text: str) -> frozenset[str]:
    return frozenset(text.split(", "))


def _sizes(**sizes: Any) -> dict[str, Any]:
    return sizes


STYLES = {
    "separate_projections": Style(
        "MultiHeadSelfAttention",
        _sizes(d_model=12, num_heads=3),
        separate,
        of("q_proj", "k_proj", "v_proj", "out_proj"),
        _can("keys, integer keys, mask"),
    ),
    "gpt_fused": Style(
        "CausalSelfAttention",
        _sizes(n_embd=12, n_head=3),
        gpt,
        fused("c_attn", "c_proj"),
        _can("keys, integer keys, always causal"),
    ),
    "mha_like": Style(
        "MultiheadAttention",
        _sizes(embed_dim=12, num_heads=3),
        mha,
        fused("in_proj", "out_proj"),
        _can("keys, mask, bias, causal, memory"),
    ),
    "cross_attention": Style(
        "CrossAttention",
        _sizes(dim=12, context_dim=10, heads=3, dim_head=4),
        lambda layer, ask: one_path(layer(ask.x, ask.memory, ask.keys)),
        to_out("to_q", "to_kv", "to_out"),
        _can("keys, always memory, scale"),
        d_memory=10,
        empty="uniform",
    ),
    "grouped_rotary": Style(
        "GroupedQueryAttention",
        _sizes(dim=24, n_heads=6, n_kv_heads=3),
        lambda layer, ask: one_path(layer(ask.x, ask.keys)),
        of("wq", "wk", "wv", "wo"),
        _can("keys, always causal, scale"),
        d_model=24,
        heads=6,
        rotary="half",
        training="",
    ),
    "post_norm_residual": Style(
        "MultiHeadAttention",
        _sizes(n_head=3, d_model=12, d_k=5, d_v=4),
        post_norm,
        of("w_qs", "w_ks", "w_vs", "fc"),
        _can("keys, integer keys, mask, memory"),
        empty="uniform",
        finish=_residual_norm,
    ),
    "alibi_causal": Style(
        "AlibiSelfAttention",
        _sizes(d_model=12, num_heads=3),
        lambda layer, ask: one_path(layer(ask.x, negated(ask.keys))),
        of("query", "key", "value", "proj"),
        _can("keys, always causal"),
        bias=alibi,
    ),
    "head_list": Style(
        "MultiHeadAttention",
        _sizes(n_embd=12, num_heads=3, block_size=32),
        lambda layer, ask: one_path(layer(ask.x)),
        by_head,
        _can("always causal"),
    ),
    "vit_qkv": Style(
        "Attention",
        _sizes(dim=12, num_heads=3, qkv_bias=True),
        lambda layer, ask: one_path(layer(ask.x)),
        fused("qkv", "proj"),
        _can("scale"),
        training="attn_drop, proj_drop",
    ),
    "bert_like": Style(
        "EncoderDecoderAttention",
        _sizes(hidden_size=12, num_attention_heads=3),
        bert,
        of("query", "key", "value", "dense"),
        _can("keys, integer keys, memory, queries"),
        training="attention_probs_dropout_prob",
    ),
    "decoder_memory": Style(
        "MemoryAttention",
        _sizes(d_model=12, d_memory=10, n_head=3, d_head=4),
        lambda layer, ask: one_path(layer(ask.x, ask.memory, negated(ask.queries), negated(ask.keys))),
        to_out("q_net", "kv_net", "o_net"),
        _can("keys, always memory, queries, isolated"),
        d_memory=10,
        finish=_zero_padding,
    ),
    "lens_cross": Style(
        "LengthAttention",
        _sizes(d_model=12, num_heads=3),
        lens,
        of("W_q", "W_k", "W_v", "W_o"),
        _can("keys, lengths, always memory, queries, isolated"),
        training="",
        finish=_zero_padding,
    ),
    "grouped_window": Style(
        "SlidingWindowAttention",
        _sizes(hidden_size=24, num_attention_heads=6, num_key_value_heads=3, sliding_window=4),
        lambda layer, ask: one_path(layer(ask.x, ask.keys)),
        of("q_proj", "k_proj", "v_proj", "o_proj"),
        _can("keys, integer keys, always causal"),
        d_model=24,
        heads=6,
        window="sliding_window",
        rotary="pairs",
    ),
    "grouped_einsum": Style(
        "PackedGroupedAttention",
        _sizes(d_model=24, num_heads=6, num_kv_heads=3),
        lambda layer, ask: one_path(layer(ask.x, ask.documents, ask.scale)),
        of("q", "k", "v", "o"),
        _can("documents, scale argument"),
        d_model=24,
        heads=6,
    ),
    "per_head_einsum": Style(
        "EinsumAttention",
        _sizes(d_model=12, num_heads=3),
        lambda layer, ask: one_path(
            layer(ask.x, ask.memory, ask.mask if ask.mask is not None else spread(ask.keys), ask.causal)
        ),
        by_parameter,
        _can("keys, mask, causal, memory"),
        training="",
    ),
    "alibi_interleaved": Style(
        "AlibiAttention",
        _sizes(hidden_size=12, num_heads=3),
        lambda layer, ask: one_path(layer(ask.x, ask.keys)),
        interleaved("query_key_value", "dense"),
        _can("keys, integer keys, always causal"),
        bias=alibi,
        empty="uniform",
        training="attention_dropout",
    ),
    "alibi_window": Style(
        "WindowedAlibiAttention",
        _sizes(d_model=12, n_heads=3),
        lambda layer, ask: one_path(layer(ask.x, ask.keys)),
        fused("Wqkv", "out_proj"),
        _can("keys, always causal"),
        bias=alibi,
        window="window_size",
        training="attn_pdrop",
    ),
    "rotary_complex": Style(
        "RotaryAttention",
        _sizes(d_model=12, num_heads=3),
        lambda layer, ask: one_path(layer(ask.x, ask.documents)),
        fused("wqkv", "wo"),
        _can("documents, always causal"),
        rotary="pairs",
    ),
    "chunked_keys": Style(
        "ChunkedAttention",
        _sizes(d_model=12, num_heads=3),
        lambda layer, ask: one_path(layer(ask.x, ask.keys, ask.documents, ask.causal)),
        of("q_lin", "k_lin", "v_lin", "out_lin"),
        _can("keys, documents, causal, isolated"),
        training="",
    ),
    "local_blocks": Style(
        "LocalAttention",
        _sizes(dim=12, heads=3, dim_head=4, window_size=4),
        lambda layer, ask: one_path(layer(ask.x)),
        fused("to_qkv", "to_out"),
        _can("always causal"),
        window="window_size",
    ),
    "cached_causal": Style(
        "CachedSelfAttention",
        _sizes(d_model=12, num_heads=3),
        cached,
        of("to_query", "to_key", "to_value", "to_output"),
        _can("always causal, past"),
    ),
}
