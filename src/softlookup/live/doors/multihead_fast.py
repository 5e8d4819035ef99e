"""The fast path of nn.MultiheadAttention: one operator from tokens to tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softlookup.live.around import Around
from softlookup.live.problem import Problem
from softlookup.live.projections import projected

PLACES = ("torch:_native_multi_head_attention",)


def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Project as the operator does, and read its mask, where True hides."""
    names = ("query", "key", "value", "embed_dim", "num_heads", "in_proj_weight", "in_proj_bias")
    given = dict(zip(names, args, strict=False))
    mask = args[9] if len(args) > 9 else kwargs.get("mask")
    mask_type = args[12] if len(args) > 12 else kwargs.get("mask_type")
    packed = (given["in_proj_weight"], given["in_proj_bias"], given["num_heads"])
    result = output[0] if isinstance(output, tuple) else output
    return projected(given["query"], given["key"], packed, (mask, mask_type), result)
