"""``attn_implementation="softlookup"``: the models of transformers run ``attend``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.conventions.tensors import shows_all
from softlookup.fused import attending
from softlookup.fused.folding import as_autocast
from softlookup.live.transformers_masks import RuleMask, mask_for_layers
from softlookup.masks import Mask, causal, sliding_window
from softlookup.terms import SoftlookupError

_NAME = "softlookup"
_DOING = f'attn_implementation="{_NAME}":'

#: What layers ask for and ``attend`` has no words for.
_NOT_SAID = {
    "softcap": "scores are squeezed by tanh, which no fused kernel does",
    "sinks": "a sink for every query",
    "indices": "keys chosen one by one for every query",
    "block_indices": "blocks of keys chosen for every query",
    "cache": "keys and values in pages",
    "output_attentions": "weights, which no fused kernel makes",
}

_before: list[tuple[dict[str, Any], Callable[..., Any] | None]] = []


def register_attention() -> str:
    """Make ``attn_implementation="softlookup"`` known to transformers, and return that name.

    Its models then run ``softlookup.attend``. Masks that are causal, of a window, of padding or of packed
    documents reach it as rules, and no [T_q, T_k] tensor is made for them; any other mask comes as a tensor.
    Sinks (``s_aux``), the bias of T5, dropout and grouped heads are computed. What ``attend`` cannot say is
    refused when the layer is called. Queries without any key get zeros. Calling it again changes nothing.

    Raises: SoftlookupError when transformers is not installed.

    >>> import softlookup
    >>> softlookup.register_attention()  # model.set_attn_implementation("softlookup")
    'softlookup'
    """
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
    except ImportError:
        raise SoftlookupError(
            f"{_DOING} its models are those of transformers.",
            expected="transformers",
            got="not installed",
            hint="pip install transformers",
        ) from None
    if not _before:
        functions = ((AttentionInterface, attention_of_layer), (AttentionMaskInterface, mask_for_layers))
        for interface, function in functions:
            _before.append((interface._global_mapping, interface._global_mapping.get(_NAME)))
            interface.register(_NAME, function)
    return _NAME


def unregister_attention() -> None:
    """Take ``attn_implementation="softlookup"`` back: both registries are as they were before.

    A model that is set to it can no longer be called; ``model.set_attn_implementation("sdpa")`` first.

    >>> from softlookup.live.transformers_attention import register_attention, unregister_attention
    >>> register_attention()
    'softlookup'
    >>> unregister_attention()
    """
    while _before:
        mapping, function = _before.pop()
        if function is None:
            mapping.pop(_NAME, None)
        else:
            mapping[_NAME] = function


def attention_of_layer(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, None]:
    """Return the output [B, T_q, H, d_v] of one layer, and None in the place of its weights.

    query: [B or 1, H, T_q, d_head]   key: [B, H_kv, T_k, d_head]   value: [B, H_kv, T_k, d_v]
    attention_mask: [B or 1, H or 1, T_q, T_k], bool (True = may look) or float, added to the scores
    options: ``scaling, dropout, is_causal, sliding_window, position_bias, s_aux``, as layers hand them over

    Raises: SoftlookupError for options that ``attend`` has no words for, and as ``attend`` does.
    """
    _refuse_what_cannot_be_said(options, attention_mask)
    query, key, value = as_autocast(query, key, value)  # rotated in float32 beside bfloat16 values
    query = query.expand(key.shape[0], -1, -1, -1)  # learned queries come once for all samples
    mask = _mask_of_call(module, query, key, attention_mask, options)
    bias, sinks, scale = (options.get(name) for name in ("position_bias", "s_aux", "scaling"))
    if bias is not None:
        mask = _with_bias(bias, mask, query, key)
    if sinks is not None:
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        query, key, value, mask = _with_sink((query, key, value), mask, sinks, scale)
    output = attending.attend(  # found when it is called, so that a watch sees the call
        query,
        key,
        value,
        mask,
        scale=scale,
        dropout_p=options.get("dropout", 0.0),
        enable_gqa=query.shape[1] != key.shape[1],
        empty_rows="zero",
    )
    return output.transpose(1, 2).contiguous(), None  # [B, H, T_q, d_v] -> [B, T_q, H, d_v]


def _refuse_what_cannot_be_said(options: dict[str, Any], attention_mask: Tensor | None) -> None:
    for name, meaning in _NOT_SAID.items():
        if options.get(name) is not None and options[name] is not False:
            raise SoftlookupError(
                f"{_DOING} this layer asks for what attend cannot say.",
                expected=f"{name}=None",
                got=f"{name}: {meaning}",
                hint="softlookup.weights_of gives single rows, softlookup.observe statistics"
                if name == "output_attentions"
                else 'attn_implementation="eager"',
            )
    starts = options.get("cu_seq_lens_q")
    made_by_the_user = attention_mask is not None and not isinstance(attention_mask, RuleMask)
    if starts is not None and len(starts) > 2 and not (made_by_the_user or _keeps_documents(attention_mask)):
        raise SoftlookupError(
            f"{_DOING} packed documents would see each other.",
            expected="position_ids that start again at 0 in every document, and no attention_mask",
            got=f"cu_seq_lens_q of {len(starts) - 1} documents, and a mask that knows of none",
        )


def _keeps_documents(mask: Tensor | None) -> bool:
    leaves = mask.rule.leaves() if isinstance(mask, RuleMask) else ()
    return any(getattr(leaf, "name", "") == "same_document" for leaf in leaves)


def _mask_of_call(
    module: nn.Module, query: Tensor, key: Tensor, attention_mask: Tensor | None, options: dict[str, Any]
) -> Tensor | Mask | None:
    """Return the mask of a call, as a rule where it still is one."""
    if isinstance(attention_mask, RuleMask):
        return None if shows_all(attention_mask.rule) else attention_mask.rule
    if attention_mask is not None:
        return attention_mask
    q_len, k_len, window = query.shape[2], key.shape[2], options.get("sliding_window")
    asked = options.get("is_causal")
    is_causal = getattr(module, "is_causal", False) if asked is None else asked
    if q_len == k_len and is_causal:
        return causal() if window is None else sliding_window(window)
    if (is_causal and q_len > 1) or (window is not None and k_len > window):
        raise SoftlookupError(
            f"{_DOING} a flag without a mask leaves open where the queries stand.",
            expected="a mask, or as many queries as keys",
            got=f"attention_mask=None, is_causal={bool(is_causal)}, sliding_window={window}",
            sizes={"T_q": q_len, "T_k": k_len},
            hint="was the model made, or its mask, while this name was not registered?",
        )
    return None


def _dense(mask: Tensor | Mask, query: Tensor, key: Tensor) -> Tensor:
    if isinstance(mask, Tensor):
        return mask
    return mask.dense(query.shape[2], key.shape[2], device=query.device)


def _with_bias(bias: Tensor, mask: Tensor | Mask | None, query: Tensor, key: Tensor) -> Tensor:
    """[.., T_q, T_k] of what is added to the scores: the bias, and what hides."""
    if mask is None:
        return bias
    dense = _dense(mask, query, key)
    return bias.masked_fill(~dense, -torch.inf) if dense.dtype == torch.bool else bias + dense


def _with_sink(
    qkv: tuple[Tensor, Tensor, Tensor], mask: Tensor | Mask | None, sinks: Tensor, scale: float
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Add a key whose score is the sink of each head, whose value is zero, and which nothing hides.

    sinks: [H] or what broadcasts to [B, H, T_q, 1] when it is reshaped to [1, H, 1, 1]

    One more feature makes the score: q holds sink / scale, k holds 1 in the sink and 0 in all others. So the
    softmax counts the sink, the gradients are right, and a fused kernel does it.
    """
    query, key, value = qkv
    feature = (sinks / scale).to(query.dtype).reshape(1, -1, 1, 1).expand(*query.shape[:3], 1)
    last = torch.nn.functional.pad(key.new_ones(*key.shape[:2], 1, 1), (key.shape[-1], 0))
    wide_key = torch.cat(
        [torch.nn.functional.pad(key, (0, 1)), last], dim=2
    )  # [B, H_kv, T_k + 1, d_head + 1]
    if mask is not None:
        dense = _dense(mask, query, key)
        shown = True if dense.dtype == torch.bool else 0.0
        mask = torch.nn.functional.pad(dense, (0, 1), value=shown)
    return torch.cat([query, feature], dim=-1), wide_key, torch.nn.functional.pad(value, (0, 0, 0, 1)), mask
