"""What all processes of a distributed run saw: together when they ask, or now and then without waiting.

Data-parallel ranks and those of FSDP2 have the same heads and other samples; ranks of tensor parallelism have
other heads of one layer, which come to stand side by side.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from softlookup.live.heads_by_rank import Share
from softlookup.live.merging_ranks import Gathered, Part, decode_parts, encode_parts, merge_ranks
from softlookup.live.record import FromRanks, Record
from softlookup.live.trace import Trace
from softlookup.statistics.ranks import of_every_rank, own_rank
from softlookup.statistics.summary import Statistics
from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

_watches = itertools.count()  # every rank begins its watches in the same order
_BOXES = ("now", "last")  # of each rank; the second for what is left when its watch ends


def all_reduce(trace: Trace, group: ProcessGroup | None = None) -> dict[str, Statistics]:
    """Return what all ranks have measured, by path of the layer: [1, H], the same bits on every rank.

    A collective: every rank of the group has to call it, also one that has measured nothing. Ranks may differ
    in samples, lengths, steps and layers; ``steps`` is that of the rank with the most calls. Heads that
    tensor parallelism spreads over ranks stand side by side; those of ranks outside the group have none.

    Raises: SoftlookupError, on all ranks alike, when ranks measured other numbers of heads of a layer, or it
    cannot be told which heads they hold; when no process group was set up.
    """
    own = {layer: Part(trace.shares.get(layer, Share()), it.to("cpu")) for layer, it in trace.layers.items()}
    merged = merge_ranks(of_every_rank(own, group))
    for layer, why in merged.left_out.items():
        raise SoftlookupError(
            f"all_reduce: what the ranks measured of {layer or 'the model'} does not belong together.",
            expected="the same heads on every rank, or a known share of them",
            got=why,
            hint="watch(..., layers=...) leaves the layer out; trace.layers has what this rank saw",
        )
    return merged.layers


@contextmanager
def reducing(trace: Trace, every: int) -> Iterator[Exchange]:
    """Fill ``trace.across_ranks`` on rank 0 while the block runs.

    Raises: SoftlookupError when no process group was set up, or it has no store.
    """
    exchange = Exchange(trace, every)
    try:
        yield exchange
    finally:
        exchange.finish()


class Exchange:
    """Leave what this rank measured where rank 0 finds it, and as rank 0, merge what is there.

    No rank ever waits for another: there is no collective. A rank has two boxes in the store of the process
    group. It fills the first every so many steps, when rank 0 has emptied it, and else keeps what it has for
    the next time; the second takes what is left in the end.
    """

    def __init__(self, trace: Trace, every: int) -> None:
        self._rank, self._trace, self._every = own_rank(), trace, every
        self._store = _own_store(f"softlookup/watch/{next(_watches)}")
        self._ranks = torch.distributed.get_world_size()
        self._due = every
        self._measured = Gathered()
        self._stopped = False

    def take(self, record: Record) -> None:
        """Take in what was measured of a call."""
        layer = record.call.layer
        self._measured.add(layer, Part(self._trace.shares.get(layer, Share()), record.statistics))

    def end_step(self, step: int) -> None:
        """Exchange, where so many steps have ended."""
        if step + 1 >= self._due:
            self._due = (step + 1) // self._every * self._every + self._every
            self._exchange(step, "now")

    def finish(self) -> None:
        """Exchange a last time; the others may be gone, which is no news then."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            self._exchange(max(0, self._trace.steps - 1), "last")

    def _exchange(self, step: int, box: str) -> None:
        if self._stopped:
            return
        try:
            if self._rank == 0:
                self._collect(step)
            else:
                self._publish(f"{self._rank}/{box}")
        except Exception as error:  # a store that is gone must not end the run
            self._stopped = True
            words = f"softlookup: ranks are not reduced any more: {type(error).__name__}: {error}"
            warnings.warn(words, RuntimeWarning, stacklevel=2)

    def _publish(self, key: str) -> None:
        if self._read(key):
            return
        parts = self._measured.take()
        if parts:
            self._store.set(key, encode_parts(parts))

    def _collect(self, step: int) -> None:
        found = {0: self._measured.take()}
        for rank in range(1, self._ranks):
            of_rank = Gathered()
            for key in (f"{rank}/{box}" for box in _BOXES):
                blob = self._read(key)
                if blob:
                    self._store.set(key, b"")  # never deleted: its rank would wait for it in `get`
                    for layer, part in decode_parts(blob).items():
                        of_rank.add(layer, part)
            found[rank] = of_rank.take()
        told = {rank: parts for rank, parts in found.items() if parts}
        if told:
            merged = merge_ranks(list(told.values()))
            self._trace.across_ranks.append(
                FromRanks(step, tuple(told), self._ranks, merged.layers, merged.left_out)
            )

    def _read(self, key: str) -> bytes:
        """Return what is in a box, without waiting for it: b"" where there is nothing."""
        blob: bytes = self._store.get(key) if self._store.check([key]) else b""
        return blob


def _own_store(name: str) -> Any:
    """Return the part of the process group's store that is ours."""
    try:
        from torch.distributed import distributed_c10d

        return distributed_c10d.PrefixStore(name, distributed_c10d._get_default_store())
    except Exception as error:
        raise SoftlookupError(
            "watch: reduce_every needs the store in which the processes found each other.",
            expected="a process group with a store",
            got=f"{type(error).__name__} with torch {torch.__version__}: {error}",
            hint="all_reduce(trace) on every rank, which needs none",
        ) from error
