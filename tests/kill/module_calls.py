"""What a module is asked, and how each module style takes it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

#: outputs [B, T_q, d_model] of every path, weights [B, H, T_q, T_k]
Outputs = tuple[list[Tensor], Tensor | None]


@dataclass(frozen=True)
class Ask:
    """One question to a module: tokens, and who may look at whom (True = may)."""

    name: str
    x: Tensor  # [B, T_q, d_model]
    memory: Tensor | None = None  # [B, T_k, d_memory]; None: x looks at itself
    keys: Tensor | None = None  # bool or int [B, T_k]
    mask: Tensor | None = None  # bool or int [B, 1, T_q, T_k]
    queries: Tensor | None = None  # bool [B, T_q]: real target tokens
    bias: Tensor | None = None  # float [T_q, T_k]
    documents: Tensor | None = None  # int [B, T]
    causal: bool = False
    past: int = 0  # tokens of x that are asked first, and kept in the cache
    options: dict[str, Any] = field(default_factory=dict)  # what the constructor is given besides sizes
    scale: float | None = None
    unbiased: bool = False  # every bias of the layer is 0

    def but(self, **changes: Any) -> Ask:
        """Return the ask with some fields replaced."""
        return replace(self, **changes)

    def to(self, dtype: torch.dtype) -> Ask:
        """Return the ask with its numbers in ``dtype``."""
        given = {name: getattr(self, name) for name in ("x", "memory", "bias")}
        return self.but(**{name: x.to(dtype) for name, x in given.items() if x is not None})

    @property
    def source(self) -> Tensor:
        """The tokens that are looked at."""
        return self.x if self.memory is None else self.memory


def negated(mask: Tensor | None) -> Tensor | None:
    return None if mask is None else ~mask


def one_path(result: Any) -> Outputs:
    return ([result[0]], result[1]) if isinstance(result, tuple) else ([result], None)


def separate(layer: nn.Module, ask: Ask) -> Outputs:
    return one_path(layer(ask.x, ask.mask if ask.mask is not None else spread(ask.keys)))


def spread(keys: Tensor | None) -> Tensor | None:
    """[B, T_k] as [B, 1, 1, T_k]."""
    return None if keys is None else keys[:, None, None, :]


def gpt(layer: nn.Module, ask: Ask) -> Outputs:
    outputs = []
    for flash in (True, False):
        layer.flash = flash
        outputs.append(layer(ask.x, ask.keys))
    return outputs, None


def mha(layer: nn.Module, ask: Ask) -> Outputs:
    tokens = [ask.x, ask.source, ask.source]
    if not layer.batch_first:
        tokens = [x.transpose(0, 1).contiguous() for x in tokens]
    mask = ask.bias if ask.mask is None else ~ask.mask[:, 0].repeat_interleave(layer.num_heads, dim=0)
    given = {"key_padding_mask": negated(ask.keys), "attn_mask": mask, "is_causal": ask.causal}
    output, weights = layer(*tokens, **given)
    outputs = [output, layer(*tokens, **given, need_weights=False)[0]]
    return [x if layer.batch_first else x.transpose(0, 1) for x in outputs], weights


def post_norm(layer: nn.Module, ask: Ask) -> Outputs:
    mask = ask.mask[:, 0] if ask.mask is not None else None if ask.keys is None else ask.keys[:, None, :]
    return one_path(layer(ask.x, ask.source, ask.source, mask))


def bert(layer: nn.Module, ask: Ask) -> Outputs:
    given = {"attention_mask": ask.keys}
    if ask.memory is not None:
        given = {
            "attention_mask": ask.queries,
            "encoder_hidden_states": ask.memory,
            "encoder_attention_mask": ask.keys,
        }
    slow, weights = layer(ask.x, **given, output_attentions=True)
    return [layer(ask.x, **given)[0], slow], weights


def lens(layer: nn.Module, ask: Ask) -> Outputs:
    lens = [None if mask is None else mask.sum(dim=1) for mask in (ask.queries, ask.keys)]
    return [layer(ask.x, ask.memory, *lens)], None


def cached(layer: nn.Module, ask: Ask) -> Outputs:
    if not ask.past:
        return [layer(ask.x)[0]], None
    first, past = layer(ask.x[:, : ask.past])
    rest, _ = layer(ask.x[:, ask.past :], past)
    return [torch.cat([first, rest], dim=1)], None
