"""flex_attention, also where transformers compiles it: score_mod and mask_mod are asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softlookup.conventions.tensors import HIDES
from softlookup.live.around import Around
from softlookup.live.problem import Problem, from_products

PLACES = (
    "torch.nn.attention.flex_attention:flex_attention",
    "transformers.integrations.flex_attention:compile_friendly_flex_attention",
)


def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Read a call of torch's own signature."""
    names = ("query", "key", "value", "score_mod", "block_mask", "scale")
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    q, k = given["query"], given["key"]
    output = output[0] if isinstance(output, tuple) else output
    score_mod, block_mask = given.get("score_mod"), given.get("block_mask")
    # All keys: no mask yet.
    plain = from_products(q, k, None, scale=given.get("scale"), v=given["value"], output=output)

    def rows_of(sample: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        scores, allowed = plain.rows(sample, rows)
        at = _Positions(sample, scores.shape, rows)
        if score_mod is not None:
            scores = at.ask(score_mod, scores)
            allowed = allowed & ~(scores <= HIDES)
        if block_mask is not None:
            allowed = allowed & at.ask(block_mask.mask_mod)
        return scores, allowed

    return replace(plain, rows=rows_of)


class _Positions:
    """Where some scores of one sample stand: what score_mod and mask_mod are given."""

    def __init__(self, sample: int, shape: Sequence[int], rows: Tensor) -> None:
        heads, _, keys = shape
        self.sample = torch.tensor(sample, device=rows.device)
        self.h, self.i, self.j = (
            torch.arange(heads, device=rows.device),
            rows,
            torch.arange(keys, device=rows.device),
        )

    def ask(self, mod: Callable[..., Tensor], scores: Tensor | None = None) -> Tensor:
        """Return what a function of single positions says everywhere: [H, n, T_k]."""
        first = () if scores is None else (0,)
        along = [(None, None, None, 0), (None, None, 0, None), (None, 0, None, None)]  # keys, queries, heads
        asked = mod
        for places in along:
            asked = torch.vmap(asked, in_dims=(*first, *places))
        given = () if scores is None else (scores,)
        return asked(*given, self.sample, self.h, self.i, self.j)
