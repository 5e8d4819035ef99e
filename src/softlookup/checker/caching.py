"""Keys and values of earlier tokens, handed to a module that takes them as an argument."""

from __future__ import annotations

from dataclasses import replace

import torch

from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Target
from softlookup.checker.cases import CaseBuilder
from softlookup.checker.evidence import Observation, same
from softlookup.checker.plan import Plan, ask

#: With these, what a key's place is depends on more than its order.
_PLACES = frozenset({"positions", "cos", "sin", "rotary"})


def ask_with_a_cache(target: Target, plan: Plan) -> tuple[Plan, list[Observation]]:
    """Return the plan with the layout of the cache, and what came back with a cache and with an empty one.

    Nothing is returned where the module takes none, or takes it in another form than (keys, values).
    """
    can = plan.abilities
    if can.wiring is None or not _takes_a_cache(plan):
        return plan, []
    build = CaseBuilder(can, getattr(torch, plan.contract.dtype or "float32"))
    past = 3 if can.wiring.num_kv_heads != 3 else 4  # so that no axis is taken for another
    corner = "bottom-right" if can.always_causal else None
    whole = build.case(81, replace(build.sizes(), T_q=past + 2, T_k=past + 2)).but(causal=corner)
    later = whole.but(q=whole.q[:, :, past:].clone(), past=past)
    for layout in ("B H T d", "B T H d"):
        cached = plan.but(cache_layout=layout)
        seen = ask(target, cached, [Probe("cached", later), Probe("cached-nothing", whole.but(past=0))])
        if len(seen) == 2 and _counts(target, plan, seen[0]):
            return cached, [one for one in seen if one.output is not None]
    return plan, []


def _counts(target: Target, plan: Plan, cached: Observation) -> bool:
    """Say whether earlier keys change anything: a stand-in that is never read tells nothing."""
    case, past = cached.case, cached.case.past
    alone = case.but(k=case.k[:, :, past:].clone(), v=case.v[:, :, past:].clone(), past=None)
    seen = ask(target, plan, [Probe("not cached", alone)])
    if cached.output is None or not seen or seen[0].output is None:
        return False
    return not same(cached.output, seen[0].output)


def _takes_a_cache(plan: Plan) -> bool:
    switches = {p.name for p in plan.parameters if p.default in {"True", "False"}}
    roles = {role for name, role in plan.roles.items() if name not in switches}
    can = plan.abilities
    plain = (
        can.wiring is not None
        and can.wiring.source == "self"
        and can.heads
        and not (can.mask_always or can.fixed_window)
    )
    return plain and "cache" in roles and not roles & _PLACES
