"""softlookup's own attend, which every model can be given as attn_implementation="softlookup"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softlookup.live.around import Around
from softlookup.live.problem import Problem, from_products
from softlookup.live.products import Products

PLACES = ("softlookup.fused.attending:attend", "softlookup.fused.attending:attend_with_lse")


def products(args: Sequence[Any], kwargs: Mapping[str, Any], around: Around | None) -> Products:
    """Read q, k, v and any mask that attend takes."""
    given = dict(zip(("q", "k", "v", "mask"), args, strict=False)) | dict(kwargs)
    options = {"scale": given.get("scale"), "dropout_p": given.get("dropout_p", 0.0)}
    return Products(given["q"], given["k"], given["v"], given.get("mask"), **options)


def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Read the scores of a call."""
    it = products(args, kwargs, around)
    result = output[0] if isinstance(output, tuple) else output
    return from_products(it.q, it.k, it.mask, scale=it.scale, v=it.v, output=result)
