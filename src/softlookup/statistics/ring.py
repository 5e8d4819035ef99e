"""Attention of one long sequence of which every process has only its own tokens, with statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softlookup.attention_inputs import check_tensors
from softlookup.masks.accept import whole_number
from softlookup.statistics.observing import observe_shard
from softlookup.statistics.pooled import PooledMap, bucket_widths
from softlookup.statistics.ranks import of_every_rank, own_rank
from softlookup.statistics.summary import Statistics
from softlookup.statistics.wanted import Grid
from softlookup.terms import MaskLike, SoftlookupError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def observe_ring(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | MaskLike | None = None,
    *,
    group: ProcessGroup | None = None,
    pooled: tuple[int, int] = (64, 64),
    **options: Any,
) -> tuple[Tensor, Statistics]:
    """Let the tokens of this rank look at those of all ranks; return their output and their statistics.

    Rank 0 has the first tokens of the sequence, rank 1 the next ones, and so on; shards may differ in length.
    Keys and values go round the ranks once (an all-gather), queries and scores stay where they are: a rank
    holds T (d_head + d_v) numbers for each key/value head beside its own. Gradients of k and v find their way
    back, when every rank calls backward.

    q: [B, H, T_q of this rank, d_head]
    k: [B, H_kv, T_k of this rank, d_head]
    v: [B, H_kv, T_k of this rank, d_v]
    mask: over the whole sequence, as for ``observe``; the same on every rank
    pooled: at most so many buckets of all queries and of all keys in the map that ``gather_queries`` stacks
    options: ``rule``, ``exact_max``, ``top_k``, ``scale`` and ``enable_gqa``, as for ``observe``

    Returns: output [B, H, T_q of this rank, d_v] and the statistics of these queries over all keys, with
    rows; ``distributed.gather_queries`` makes them those of the whole sequence.

    Raises: SoftlookupError, on all ranks alike, when the tensors of a rank are no attention problem or differ
    from the others in more than length; when no process group was set up.

    Source: section 3.3.2 of Grattafiori et al. 2024, "The Llama 3 Herd of Models", arXiv 2407.21783, which
    gathers keys and values so that any mask can be used.

    >>> import torch.distributed as dist
    >>> from softlookup.masks import causal
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> q, k, v = torch.zeros(3, 1, 2, 8, 4)
    >>> output, statistics = observe_ring(q, k, v, causal())
    >>> round(statistics.entropy_nats[0, 0].item(), 4)  # the mean of log 1, log 2, ... log 8
    1.3256
    >>> dist.destroy_process_group()
    """
    for number, axis in zip(pooled, ("queries", "keys"), strict=True):
        whole_number(f"pooled buckets of {axis}", number, at_least=1)
    q_lens, k_lens = _lengths_of_every_rank(q, k, v, options, group)
    rank, k_total = own_rank(group), sum(k_lens)
    k, v = _Gathered.apply(k, v, k_lens, group)  # type: ignore[no-untyped-call]
    output, rows = observe_shard(
        q,
        k,
        v,
        mask,
        q_start=sum(q_lens[:rank]),
        k_start=0,
        q_total=sum(q_lens),
        k_total=k_total,
        key_buckets=pooled[1],
        **options,
    )
    query_widths = bucket_widths(q.shape[-2], max(1, pooled[0] // len(q_lens)))
    key_widths = Grid.of(k_total, pooled[1]).key_widths(k_total)
    mass = rows.key_mass
    own_map = mass if mass is None else PooledMap.of(mass, query_widths=query_widths, key_widths=key_widths)
    return output, Statistics.from_rows(rows, own_map, keep_rows=True)


def _lengths_of_every_rank(
    q: Tensor, k: Tensor, v: Tensor, options: dict[str, Any], group: ProcessGroup | None
) -> tuple[list[int], list[int]]:
    """Return T_q and T_k of each rank, once all agree on everything else."""
    problem, facts, lengths = "", {}, (0, 0)
    try:
        check_tensors(q, k, v, enable_gqa=bool(options.get("enable_gqa")))
        facts = _what_must_agree({"q": q, "k": k, "v": v})
        lengths = q.shape[-2], k.shape[-2]
    except SoftlookupError as error:
        problem = str(error)
    everywhere = of_every_rank((problem, facts, lengths), group)
    for rank, (theirs, their_facts, _) in enumerate(everywhere):
        if theirs:
            raise SoftlookupError(f"observe_ring: rank {rank} cannot take part.\n{theirs}")
        for name, ours in everywhere[0][1].items():
            if their_facts[name] != ours:
                raise SoftlookupError(
                    "observe_ring: the ranks hold parts of one sequence, which differ in length only.",
                    expected=f"{name} = {ours}, as on rank 0",
                    got=f"{their_facts[name]} on rank {rank}",
                )
    return [it[2][0] for it in everywhere], [it[2][1] for it in everywhere]


def _what_must_agree(tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Name what a collective needs alike on every rank, also in backward."""
    facts: dict[str, Any] = {"gradients": torch.is_grad_enabled()}
    for name, tensor in tensors.items():
        facts[f"dtype of {name}"] = str(tensor.dtype)
        facts[f"axes of {name} but T"] = (*tensor.shape[:-2], tensor.shape[-1])
        if name != "q":
            facts[f"{name}.requires_grad"] = tensor.requires_grad
    return facts


class _Gathered(torch.autograd.Function):
    """The keys and values of all ranks; in backward every rank gets what all of them ask of its own."""

    @staticmethod
    def forward(
        ctx: Any, k: Tensor, v: Tensor, lengths: list[int], group: ProcessGroup | None
    ) -> tuple[Tensor, Tensor]:
        ctx.lengths, ctx.group = lengths, group
        return _joined(k, lengths, group), _joined(v, lengths, group)

    @staticmethod
    def backward(ctx: Any, k_grad: Tensor, v_grad: Tensor) -> tuple[Tensor, Tensor, None, None]:
        import torch.distributed as dist

        own = []
        for grad in (k_grad, v_grad):  # one after the other, in the same order on every rank
            whole = grad.clone(memory_format=torch.contiguous_format)
            dist.all_reduce(whole, group=ctx.group)
            own.append(torch.split(whole, ctx.lengths, dim=-2)[own_rank(ctx.group)])
        return own[0], own[1], None, None


def _joined(own: Tensor, lengths: list[int], group: ProcessGroup | None) -> Tensor:
    """[..., T of this rank, d] -> [..., T of all ranks, d]; padded, as a collective wants one size."""
    import torch.distributed as dist

    padded = torch.nn.functional.pad(own, (0, 0, 0, max(lengths) - own.shape[-2])).contiguous()
    parts = [torch.empty_like(padded) for _ in lengths]
    dist.all_gather(parts, padded, group=group)
    return torch.cat([part[..., :length, :] for part, length in zip(parts, lengths, strict=True)], dim=-2)
