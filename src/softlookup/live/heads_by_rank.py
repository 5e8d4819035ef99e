"""Which heads of a layer this process holds, where tensor parallelism gives each rank some of them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import nn

from softlookup.live.problem import Problem

_QUERIES = re.compile(r"(^|_)(w?q|query)(_|$)")
_TOGETHER = re.compile(r"qkv|query_key_value|c_attn|in_proj")  # queries, keys and values of one projection


class Share(NamedTuple):
    """The heads of a layer that a rank holds: part ``place`` of ``of`` parts that lie side by side.

    unknown: why it cannot be told which they are; "" where it can
    """

    place: int = 0
    of: int = 1
    unknown: str = ""


def share_of_heads(layer: nn.Module, problem: Problem) -> Share:
    """Return which heads a call in this layer has, to be asked while the forward of the layer runs.

    The weights know how many rows they have on all ranks together, the call how many heads it has here.
    FSDP2 shards weights too, but a call then still has all heads.
    """
    weights = list(_sharded_weights(layer))
    named = [(name, it) for name, it in weights if _QUERIES.search(name) or _TOGETHER.search(name)]
    if not named:
        why = "weights are sharded, and none is called a projection of queries" if weights else ""
        return Share(unknown=why)
    name, weight = next((it for it in named if _QUERIES.search(it[0])), named[0])
    d_head = problem.sources["queries"].shape[-1] if "queries" in problem.sources else 0
    d_head = d_head or getattr(layer, "head_dim", 0)
    if not d_head:
        return Share(unknown="weights are sharded, and the call does not tell the width of a head")
    heads = problem.num_heads + (0 if _QUERIES.search(name) else 2 * problem.num_kv_heads)
    parts, rest = divmod(weight.shape[0], heads * d_head)
    if parts == 1 and not rest:
        return Share()
    axes = [axis for axis in _axes(weight) if weight.device_mesh.size(axis) == parts and not rest]
    if len(axes) != 1:
        rows = f"{weight.shape[0]} rows of {name} on {tuple(weight.device_mesh.shape)} ranks"
        return Share(unknown=f"{rows} do not tell which {problem.num_heads} heads of {d_head} are here")
    return Share(weight.device_mesh.get_local_rank(axes[0]), parts)


def _sharded_weights(layer: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the weights of which this process holds some rows only, under the names of their modules."""
    tensors = sys.modules.get("torch.distributed.tensor")  # without it nothing is sharded
    if tensors is None:
        return
    for path, parameter in layer.named_parameters():
        if isinstance(parameter, tensors.DTensor) and parameter.dim() == 2 and _axes(parameter):
            yield (path.split(".")[-2] if "." in path else path).lower(), parameter


def _axes(weight: Any) -> list[int]:
    """Return the axes of the mesh over which rows are spread."""
    return [axis for axis, it in enumerate(weight.placements) if getattr(it, "dim", None) == 0]
