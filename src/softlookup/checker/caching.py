"""Keys and values of earlier tokens: handed to a module as an argument, or remembered by it between calls."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Sketch, Target
from softlookup.checker.cases import CaseBuilder
from softlookup.checker.evidence import Observation, same
from softlookup.checker.plan import Plan, ask
from softlookup.checker.wiring import Tokens, remember, tokens_of
from softlookup.terms import Case

#: With these, what a key's place is depends on more than its order.
_PLACES = frozenset({"positions", "cos", "sin", "rotary"})
#: A switch that makes a module keep its keys and values.
_REMEMBERS = re.compile(r"_?(use|enable|with|keep|kv|update)_?(kv_?)?(cache|caching)|incremental|decoding")
#: What a module that remembers without being told to sets in itself.
_KEEPS = re.compile(r"\bself\.\w*(cache|past|kv|previous|earlier)\w*(\s*,[^=\n]*)?\s*=[^=]", re.I)


def ask_with_a_cache(target: Target, plan: Plan) -> tuple[Plan, list[Observation]]:
    """Return the plan with the layout of the cache, and what came back with a cache and with an empty one.

    Nothing is returned where the module takes none, or takes it in another form than (keys, values), and
    where it does not remember what it was given before either.
    """
    can = plan.abilities
    if not _places_are_its_own(plan):
        return plan, []
    build = CaseBuilder(can, getattr(torch, plan.contract.dtype or "float32"))
    past = 3 if can.wiring is None or can.wiring.num_kv_heads != 3 else 4  # so that no two axes are as long
    corner = "bottom-right" if can.always_causal else None
    whole = build.case(81, replace(build.sizes(), T_q=past + 2, T_k=past + 2)).but(causal=corner)
    later = whole.but(q=whole.q[:, :, past:].clone(), past=past)
    for layout in ("B H T d", "B T H d") if _takes_a_cache(plan) else ():
        cached = plan.but(cache_layout=layout)
        seen = ask(target, cached, [Probe("cached", later), Probe("cached-nothing", whole.but(past=0))])
        if len(seen) == 2 and _counts(target, plan, seen[0]):
            return cached, [one for one in seen if one.output is not None]
    for switched in _remembering(plan, target.sketch):
        probe = Probe("cached", later, after=_given_first(whole, later), **switched)
        nothing = Probe("cached-nothing", whole.but(past=0), **switched)
        seen = ask(target, plan, [probe, nothing])
        if len(seen) == 2 and _counts(target, plan, seen[0]):
            return plan, [one for one in seen if one.output is not None]
    return plan, []


def _given_first(whole: Case, later: Case) -> Case:
    """Return the case of the first tokens; both cases become pieces of one input under one set of tables."""
    tokens, past = tokens_of(whole), whole.q.shape[2] - later.q.shape[2]
    first = whole.but(q=whole.q[:, :, :past], k=whole.k[:, :, :past], v=whole.v[:, :, :past])
    for case, piece in ((first, tokens.x[:, :past].clone()), (later, tokens.x[:, past:].clone())):
        remember(case, Tokens(piece, piece, piece, tokens.tables))
    return first


def _remembering(plan: Plan, sketch: Sketch) -> Iterator[dict[str, Any]]:
    """Yield what turns on the memory of a module, as a probe sets it: nothing, where it always remembers."""
    if _KEEPS.search(sketch.source):
        yield {}
    for parameter in plan.parameters:
        if parameter.default == "False" and _REMEMBERS.fullmatch(parameter.name):
            yield {"arguments": ((parameter.name, True),)}
    for path, value in sketch.settings.items():
        if value is False and _REMEMBERS.fullmatch(path.rpartition(".")[2]):
            yield {"settings": ((path, True),)}


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
    return "cache" in {role for name, role in plan.roles.items() if name not in switches}


def _places_are_its_own(plan: Plan) -> bool:
    """Say whether a module looks at its own tokens, and nothing but their order tells where a key is."""
    can = plan.abilities
    return (
        can.wiring is not None
        and can.wiring.source == "self"
        and can.heads
        and not (can.mask_always or can.fixed_window)
        and not _PLACES & set(plan.roles.values())
    )
