"""Statistics of one long sequence that is spread over processes, and merged.

Two ways to hold a sequence: every rank sees all queries and a shard of the keys (``merge_over_keys``), or
every rank sees its queries and all keys (``gather_queries``). Every rank of the group has to call, as with
any collective.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from softlookup.statistics.ranks import of_every_rank
from softlookup.statistics.summary import Statistics
from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


def merge_over_keys(statistics: Statistics, group: ProcessGroup | None = None) -> Statistics:
    """Return the statistics over all keys, on every rank; each rank saw all queries and a shard of the keys.

    statistics: of ``observe_shard``, whose positions are counted over all keys, with rows

    Raises: SoftlookupError, on all ranks alike, when a rank has no rows or its rows do not fit the others.
    """
    parts = of_every_rank(statistics.to("cpu"), group)
    missing = [rank for rank, part in enumerate(parts) if part.rows is None]
    if missing:
        raise SoftlookupError(
            "merge_over_keys: averages over queries do not merge over keys, single queries do.",
            expected="rows on every rank",
            got=f"none on rank {', '.join(map(str, missing))}",
            hint="observe(..., per_query=True)",
        )
    return reduce(Statistics.merge_keys, parts).to(statistics.queries.device)


def gather_queries(statistics: Statistics, group: ProcessGroup | None = None) -> Statistics:
    """Return the statistics of all queries, on every rank; each rank saw its queries, in order, and all keys.

    Rows are joined where every rank has them; the map is stacked where every rank has one.

    Raises: SoftlookupError, on all ranks alike, when what they measured differs.
    """
    parts = of_every_rank(statistics.to("cpu"), group)
    return reduce(Statistics.merge_queries, parts).to(statistics.queries.device)
