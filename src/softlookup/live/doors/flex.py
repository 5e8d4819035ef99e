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
from softlookup.live.products import Products

PLACES = (
    "torch.nn.attention.flex_attention:flex_attention",
    "transformers.integrations.flex_attention:compile_friendly_flex_attention",
)


def products(args: Sequence[Any], kwargs: Mapping[str, Any], around: Around | None) -> Products:
    """Read a call of torch's own signature."""
    names = ("query", "key", "value", "score_mod", "block_mask", "scale")
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    block_mask = given.get("block_mask")
    return Products(
        given["query"],
        given["key"],
        given["value"],
        scale=given.get("scale"),
        score_mod=given.get("score_mod"),
        mask_mod=None if block_mask is None else block_mask.mask_mod,
    )


def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Read the scores of a call."""
    it = products(args, kwargs, around)
    score_mod, mask_mod = it.score_mod, it.mask_mod
    output = output[0] if isinstance(output, tuple) else output
    plain = from_products(it.q, it.k, None, scale=it.scale, v=it.v, output=output)  # all keys: no mask yet

    def rows_of(sample: int, rows: Tensor) -> tuple[Tensor, Tensor]:
        scores, allowed = plain.rows(sample, rows)
        at = _Positions(sample, scores.shape, rows)
        if score_mod is not None:
            scores = at.ask(score_mod, scores)
            allowed = allowed & ~(scores <= HIDES)
        if mask_mod is not None:
            allowed = allowed & at.ask(mask_mod)
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
