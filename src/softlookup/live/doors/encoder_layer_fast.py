"""The fast path of nn.TransformerEncoderLayer: the whole layer is one operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.nn.functional import layer_norm

from softlookup.live.around import Around
from softlookup.live.problem import Problem
from softlookup.live.projections import projected

PLACES = ("torch:_transformer_encoder_layer_fwd",)


@torch.no_grad()
def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Normalise first where the layer does, then project."""
    src, width, heads, weight, bias = args[:5]
    norm_first, eps, norm_weight, norm_bias = args[8:12]
    mask, mask_type = (args[18] if len(args) > 18 else None), (args[19] if len(args) > 19 else None)
    if norm_first and not src.is_nested:
        src = layer_norm(src, (width,), norm_weight, norm_bias, eps)
    elif norm_first:
        parts = [layer_norm(it, (width,), norm_weight, norm_bias, eps) for it in src.unbind()]
        src = torch.nested.as_nested_tensor(parts)
    return projected(src, src, (weight, bias, heads), (mask, mask_type), output)
