"""softlookup's own attend, which every model can be given as attn_implementation="softlookup"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from softlookup.live.around import Around
from softlookup.live.problem import Problem, from_products

PLACES = ("softlookup.fused.attending:attend", "softlookup.fused.attending:attend_with_lse")


def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Read q, k, v and any mask that attend takes."""
    given = dict(zip(("q", "k", "v", "mask"), args, strict=False)) | dict(kwargs)
    result = output[0] if isinstance(output, tuple) else output
    return from_products(
        given["q"], given["k"], given.get("mask"), scale=given.get("scale"), v=given["v"], output=result
    )
