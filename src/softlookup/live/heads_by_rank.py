"""Which heads of a layer this process holds, where tensor parallelism gives each rank some of them."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from torch import Tensor, nn

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
    if "torch.distributed.tensor" not in sys.modules:  # nothing is sharded
        return Share()
    weights = [(path.lower().split("."), it) for path, it in layer.named_parameters() if it.dim() == 2]
    queries = [it for path, it in weights if any(map(_QUERIES.search, path))]
    together = [it for path, it in weights if any(map(_TOGETHER.search, path))]
    spread = [it for it in queries or together if _axes(it)]
    if not queries and not together and any(_axes(it) for _, it in weights):
        return Share(unknown="weights are sharded, and none is called a projection of queries")
    kv_heads = 0 if queries else 2 * problem.num_kv_heads  # whose rows are among those of the weights
    shares = [_share(it, layer, problem, problem.num_heads + kv_heads) for it in spread]
    return next((it for it in shares if not it.unknown), shares[0] if shares else Share())


def _share(weight: Any, layer: nn.Module, problem: Problem, heads: int) -> Share:
    """Return the share that these weights tell of: where heads are split, so many are those of this rank."""
    queries = problem.sources.get("queries")
    d_head = getattr(layer, "head_dim", 0) if queries is None else queries.shape[-1]
    parts, rest = divmod(weight.shape[0], heads * d_head) if d_head else (0, 0)
    if parts == 1 and not rest:
        return Share()
    mesh = weight.device_mesh
    axes = [axis for axis in _axes(weight) if mesh.size(axis) == parts and not rest]
    if len(axes) == 1:
        return Share(mesh.get_local_rank(axes[0]), parts)
    rows = f"{weight.shape[0]} rows of weights on {' x '.join(map(str, mesh.shape))} ranks"
    return Share(unknown=f"{rows} do not tell which {problem.num_heads} heads are here")


def _axes(weight: Tensor) -> list[int]:
    """Return the axes of the mesh over which rows are spread; of a plain tensor none."""
    placements = getattr(weight, "placements", ())
    return [axis for axis, it in enumerate(placements) if getattr(it, "dim", None) == 0]
