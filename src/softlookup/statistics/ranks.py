"""What the processes of a distributed run tell each other: one value each, known to all afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

T = TypeVar("T")


def of_every_rank(value: T, group: ProcessGroup | None = None) -> list[T]:
    """Return the value that each rank of the group hands over, in the order of the ranks.

    Everybody ends with the same list, so a decision taken from it is the same everywhere: no rank waits for
    one that gave up. ``value`` is pickled: let its tensors live on the CPU.

    Raises: SoftlookupError when no process group was set up, or this process is not in ``group``.
    """
    import torch.distributed as dist

    own_rank(group)
    values: list[T | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(values, value, group=group)
    return cast("list[T]", values)


def own_rank(group: ProcessGroup | None = None) -> int:
    """Return the place of this process in the group.

    Raises: SoftlookupError when no process group was set up, or this process is not in ``group``.
    """
    import torch.distributed as dist

    if not (dist.is_available() and dist.is_initialized()):
        raise SoftlookupError(
            "statistics: there are no other processes to merge with.",
            expected="a process group",
            got="torch.distributed was not initialised",
            hint="torch.distributed.init_process_group(...), or run the script by torchrun",
        )
    rank: int = dist.get_rank(group)
    if rank < 0:
        raise SoftlookupError(
            "statistics: this process does not belong to the group.",
            expected="only members of the group call",
            got=f"rank {dist.get_rank()} of {dist.get_world_size()}, outside the group",
        )
    return rank
