"""What a model of transformers does between its ``attention_mask`` and the output of an attention layer.

First ``create_causal_mask`` or ``create_bidirectional_mask`` makes what the layers are given, then one of
``eager``, ``sdpa`` and ``flex_attention`` attends with it. A mask of four axes, or a BlockMask, passes the
first step as it is.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from softlookup.terms import SoftlookupError

Implementation: TypeAlias = Literal["eager", "sdpa", "flex_attention"]


def encoder_mask(q: Tensor, k: Tensor, attention_mask: Any, implementation: Implementation) -> Any:
    """Return what an encoder like BERT gives its layers, for other keys than queries too."""
    from transformers.masking_utils import create_bidirectional_mask

    queries, keys = (it.new_zeros(it.shape[0], it.shape[2], 1) for it in (q, k))
    return create_bidirectional_mask(
        _config(implementation), queries, attention_mask, encoder_hidden_states=keys
    )


def decoder_mask(
    q: Tensor, k: Tensor, attention_mask: Any, implementation: Implementation, **more: Any
) -> Any:
    """Return what a decoder like Llama gives its layers; keys beyond the queries come from its cache.

    more: ``is_causal`` as the model takes it, and the functions that ``create_causal_mask`` takes

    Raises: SoftlookupError for fewer keys than queries, which no cache makes.
    """
    from transformers import DynamicCache
    from transformers.masking_utils import create_causal_mask

    before = k.shape[2] - q.shape[2]  # tokens in the cache
    if before < 0:
        raise SoftlookupError(
            "transformers: a decoder's keys are its own tokens and those before.",
            expected="k_len of at least q_len",
            got=f"q_len={q.shape[2]}, k_len={k.shape[2]}",
        )
    cache = None
    if before:
        cache = DynamicCache()
        cache.update(k[:, :, :before], k[:, :, :before], 0)
    config = _config(implementation)
    config.is_causal = more.pop("is_causal", True)
    queries = q.new_zeros(q.shape[0], q.shape[2], 1)
    return create_causal_mask(config, queries, attention_mask, cache, **more)


def attend_by(
    implementation: Implementation,
    qkv: tuple[Tensor, Tensor, Tensor],
    attention_mask: Any,
    *,
    is_causal: bool = False,
) -> Tensor:
    """Call the attention of a layer: q [B, H, T_q, d], k, v [B, H, T_k, d] -> [B, H, T_q, d].

    is_causal: what the layer does when the mask is None; only ``sdpa`` looks at it
    """
    layer = nn.Module().eval()
    layer.num_key_value_groups, layer.is_causal = 1, is_causal  # type: ignore[assignment]
    scaling = qkv[0].shape[-1] ** -0.5
    if implementation == "eager":
        from transformers.models.llama.modeling_llama import eager_attention_forward as forward
    elif implementation == "sdpa":
        from transformers.integrations.sdpa_attention import sdpa_attention_forward as forward
    else:
        return _flex(layer, qkv, attention_mask, scaling)
    output: Tensor = forward(layer, *qkv, attention_mask, scaling=scaling)[0]
    return output.transpose(1, 2)  # [B, T_q, H, d] -> [B, H, T_q, d]


def _flex(
    layer: nn.Module, qkv: tuple[Tensor, Tensor, Tensor], attention_mask: Any, scaling: float
) -> Tensor:
    """Call it uncompiled: on CPUs a compiled score mask can give wrong outputs, or crash."""
    from transformers.integrations.flex_attention import flex_attention_forward

    with torch.compiler.set_stance("force_eager"):
        output: Tensor = flex_attention_forward(layer, *qkv, attention_mask, scaling=scaling)[0]
    return output.transpose(1, 2)


def _config(implementation: Implementation) -> Any:
    from transformers import PreTrainedConfig

    config = PreTrainedConfig()
    config._attn_implementation = implementation
    return config
