"""What goes wrong silently with a mask like this, in sentences with its numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from softlookup.conventions.candidates import Candidate
from softlookup.conventions.marks import Marks
from softlookup.conventions.meanings import Numbers


def dangers_of(tensor: Tensor, numbers: Numbers, best: Candidate | None) -> list[str]:
    """Return the dangers of a tensor, under its likeliest meaning where that matters."""
    found = [*_of_dtype(tensor, numbers)]
    if best is not None and best.marks is not None:
        found += [*_of_entries(best.marks), *_of_axes(tensor, best)]
    return found


def _of_dtype(tensor: Tensor, numbers: Numbers) -> Iterator[str]:
    if tensor.dtype == torch.bool:
        yield (
            "True means may look for F.scaled_dot_product_attention, JAX, Keras and ONNX, and hidden for nn."
            "MultiheadAttention, nn.Transformer and TransformerEngine: given to the wrong one it is inverted"
        )
        return
    if not tensor.dtype.is_floating_point:
        if numbers.flags:
            yield "F.scaled_dot_product_attention refuses integers, others add them to scores: make it bool"
        return
    if numbers.has_nan:
        yield "there is nan in it: every query that meets it gets nan"
    if numbers.flags and numbers.most == 1:
        yield _hides_nothing(numbers)
    if numbers.most > 9000:
        yield f"{numbers.most:g} is added to scores, not subtracted: these keys would take all weight"
    if numbers.fills and numbers.least != -math.inf:
        yield from _of_fills(tensor.dtype, numbers.least)


def _hides_nothing(numbers: Numbers) -> str:
    """The share of the weight on the keys that one of the two numbers was to hide, for equal scores."""
    ones = numbers.ones_fraction
    on_zeros = (1 - ones) / (1 - ones + ones * math.e)
    return (
        "values 0 and 1: added to scores this hides nothing; "
        f"{on_zeros:.0%} of the weight would sit on keys you probably meant to hide (where it is 0), "
        f"or {1 - on_zeros:.0%} (where it is 1)"
    )


def _of_fills(dtype: torch.dtype, least: float) -> Iterator[str]:
    half = torch.finfo(torch.float16).min
    name = str(dtype).removeprefix("torch.")
    if least < half:
        yield f"the fill {least:.4g} becomes -inf in float16: a query without keys gets nan there"
    if 2 * least < torch.finfo(dtype).min:
        yield f"two such fills add up to -inf in {name}: a query without keys gets nan"
    if least > -30_000 and dtype == torch.float32:
        yield f"the fill {least:g} is finite: a query without keys attends to what was to be hidden"


def _of_entries(marks: Marks) -> Iterator[str]:
    seeing = marks.seeing
    blind = int((~seeing).sum())
    if blind:
        first = (~seeing).nonzero()[0].tolist()
        where = ", ".join(f"{n} {at}" for n, at in zip(("sample", "head", "query"), first, strict=True))
        yield (
            f"{blind} of {seeing.numel()} queries see no key, the first is {where}: "
            "libraries return zeros, nan or an average there"
        )
    if marks.square and bool(marks.beside(1).any()):
        earlier = bool(marks.beside(-1).any())
        if not earlier:
            yield "the upper triangle is visible and the lower one is not: queries see the future"
    if marks.by_query and marks.marked.shape[-1] > 1 and blind and _whole_rows(marks):
        yield (
            "whole rows are hidden and no column: it masks queries, and padding must hide keys: "
            "mask[:, None, None, :]"
        )


def _whole_rows(marks: Marks) -> bool:
    """Say whether every query sees all keys or none."""
    first = marks.marked[..., :1]
    return bool((marks.marked[..., -1:] == first).all()) and torch.equal(
        marks.marked, first.expand_as(marks.marked)
    )


def _of_axes(tensor: Tensor, best: Candidate) -> Iterator[str]:
    if tensor.dim() == 2 and tensor.shape[0] == tensor.shape[1] > 1:
        yield (
            f"{list(tensor.shape)}: where B == T_q, a mask [B, T_k] broadcasts silently as [T_q, T_k]; "
            "write keys as mask[:, None, None, :]"
        )
    elif tensor.dim() == 2 and best.axes == "B T_k":
        yield (
            "two axes are [T_q, T_k] for F.scaled_dot_product_attention: "
            "keys of samples are mask[:, None, None, :]"
        )
    if tensor.dim() == 3:
        yield (
            "three axes are [H, T_q, T_k] when they broadcast to scores, "
            "and [B * H, T_q, T_k] for nn.MultiheadAttention"
        )
