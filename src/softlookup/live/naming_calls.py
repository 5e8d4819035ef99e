"""A problem that was read, as a call with a name: where in the model, of which kind, how large."""

from __future__ import annotations

from softlookup.live.around import Around
from softlookup.live.problem import Problem
from softlookup.live.record import Call, Kind


def call_of(problem: Problem, around: Around, way: str, *, step: int, number: int) -> Call:
    """Return the call that a problem is of.

    way: the door, or how else it was seen;  step, number: see ``Call``
    """
    kind: Kind = "cross" if around.cross else "cached" if problem.q_len < problem.k_len else "self"
    return Call(
        step,
        around.path,
        number,
        way,
        kind,
        around.layer.training,
        problem.batch_size,
        problem.num_heads,
        problem.num_kv_heads,
        problem.q_len,
        problem.k_len,
    )
