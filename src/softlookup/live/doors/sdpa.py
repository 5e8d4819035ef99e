"""torch.nn.functional.scaled_dot_product_attention, and all that calls it: nn.MultiheadAttention too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from softlookup.live.around import Around
from softlookup.live.kept_answers import CAUSAL
from softlookup.live.problem import Problem, from_products
from softlookup.live.products import Products
from softlookup.masks import Mask

PLACES = ("torch.nn.functional:scaled_dot_product_attention",)


def products(args: Sequence[Any], kwargs: Mapping[str, Any], around: Around | None) -> Products:
    """Read a call of torch's own signature."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    given = dict(zip(names, args, strict=False)) | dict(kwargs)
    q, k, v, mask = given["query"], given["key"], given["value"], given.get("attn_mask")
    if around is not None:
        q, mask = _heads_apart(q, mask, around)
    rule: Tensor | Mask | None = CAUSAL if given.get("is_causal") else mask  # from the first key on
    if isinstance(rule, Tensor) and rule.dim() > 2 and q.dim() == 3:
        rule = rule.unsqueeze(-3)  # [B * H, T_q, T_k], one head each
    if q.dim() == 3:
        q, k, v = q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1)
    return Products(q, k, v, rule, given.get("scale"), given.get("dropout_p", 0.0))


def read(
    args: Sequence[Any], kwargs: Mapping[str, Any], output: Any, around: Around | None
) -> Problem | None:
    """Read the scores of a call."""
    it = products(args, kwargs, around)
    result = output if isinstance(output, Tensor) else None
    return from_products(it.q, it.k, it.mask, scale=it.scale, v=it.v, output=result)


def _heads_apart(q: Tensor, mask: Tensor | None, around: Around) -> tuple[Tensor, Tensor | None]:
    """Undo what transformers does to one new token: the heads of a group stand as queries of one head."""
    groups = getattr(around.layer, "num_key_value_groups", 1)
    if not isinstance(groups, int) or groups <= 1 or around.value("q_length") != 1:
        return q, mask
    if q.dim() != 4 or q.shape[2] != groups:
        return q, mask
    if isinstance(mask, Tensor) and mask.shape[1] > 1:
        mask = mask.reshape(mask.shape[0], -1, 1, mask.shape[-1])
    return q.reshape(q.shape[0], -1, 1, q.shape[-1]), mask
