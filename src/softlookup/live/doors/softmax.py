"""softmax, in attention that somebody wrote by hand: the scores are there, with what was added to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from softlookup.live.around import Around
from softlookup.live.problem import Problem, from_scores
from softlookup.live.products import Written

PLACES = (
    "torch.nn.functional:softmax",
    "torch:softmax",
    "torch.special:softmax",
    "torch:Tensor.softmax",
)
_ATTENTION_NAMES = ("attention", "attn", "multihead", "mha")


def written(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Written | None:
    """Read scores [B, H, T_q, T_k], or [B * H, T_q, T_k] of a layer that says that it is attention.

    Routers, classifiers and samplers take a softmax as well: of two axes, or of three outside attention.
    """
    given = dict(zip(("input", "dim"), args, strict=False)) | dict(kwargs)
    scores, dim = given.get("input"), given.get("dim")
    if around is None or not isinstance(scores, Tensor) or not isinstance(output, Tensor):
        return None
    if scores.dim() not in (3, 4) or dim not in (-1, scores.dim() - 1):
        return None
    if scores.dim() == 3 and not _says_attention(around):
        return None
    if scores.shape[-2] == 0 or scores.shape[-1] == 0:
        return None
    before = around.value("attn_weights")
    if isinstance(before, Tensor) and before.dim() == 4 and _is_a_column_short(before, scores):
        sinks = getattr(around.layer, "sinks", None)
        if isinstance(sinks, Tensor) and sinks.dim() == 1:  # gpt-oss shifts the scores after adding a column
            return Written(before, output, sinks.view(1, -1, 1, 1).expand(*before.shape[:3], 1))
        return Written(scores[..., :-1], output, scores[..., -1:])
    return Written(_four_axes(scores, _number_of_heads(around.layer)), output)


def _is_a_column_short(before: Tensor, scores: Tensor) -> bool:
    """Say whether scores are others with one more at the end of each row: a sink, which is no key."""
    return (*before.shape[:-1], before.shape[-1] + 1) == tuple(scores.shape)


def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Read the scores, and the weights that the model made of them."""
    it = written(args, kwargs, output, around)
    if it is None or it.sinks is not None:
        return None if it is None else from_scores(it.scores, it.weights, sinks=it.sinks)
    return from_scores(it.scores, it.weights.reshape(it.scores.shape))


def _says_attention(around: Around) -> bool:
    words = f"{type(around.layer).__name__} {around.path.rsplit('.', 1)[-1]}".lower()
    return isinstance(around.layer, nn.MultiheadAttention) or any(it in words for it in _ATTENTION_NAMES)


def _number_of_heads(layer: nn.Module) -> int | None:
    for name in ("num_heads", "n_heads", "num_attention_heads", "n_head", "nhead", "heads"):
        number = getattr(layer, name, None)
        if isinstance(number, int) and number > 0:
            return number
    return None


def _four_axes(tensor: Tensor, heads: int | None) -> Tensor:
    """[B, H, T_q, T_k], from three axes too: heads follow samples, or there is one head."""
    if tensor.dim() == 4:
        return tensor
    if heads is not None and tensor.shape[0] % heads == 0:
        return torch.unflatten(tensor, 0, (-1, heads))
    return tensor.unsqueeze(1)
