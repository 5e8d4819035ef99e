"""The same questions through every switch that picks another path and promises the same answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Sketch, Target
from softlookup.checker.cases import CaseBuilder
from softlookup.checker.evidence import Observation
from softlookup.checker.plan import Plan, ask

_PICKS_A_PATH = re.compile(
    r"fused|flash|fast|sdp|manual|optimi|efficient|kernel|weights|attn_probs|materiali|chunk|naive|eager"
    r"|compile|train|determin|(return|output|need|with|get)_.*(att|score|prob|map)"
)
#: Probe -> what it is called in the name of a path, in one word.
_KINDS = {
    "plain": "plain",
    "masked": "masked",
    "padded": "padded",  # at the end of every sample: a path may cut it off
    "causal": "causal",
    "causal-masked": "both",
}


def ask_other_paths(target: Target, plan: Plan, probes: Sequence[Probe]) -> list[Observation]:
    """Return probes called "path-KIND-SWITCH" beside "path-KIND-default"; none where there is one path."""
    asked = [(kind, probe) for name, kind in _KINDS.items() for probe in probes if probe.name == name]
    switched: list[tuple[str, dict[str, Any]]] = [("default", {})]
    switched += [(name, {"arguments": ((name, value),)}) for name, value in argument_switches(plan)]
    switched += [
        (path.rpartition(".")[2], {"settings": ((path, value),)})
        for path, value in setting_switches(target.sketch)
    ]
    ways = [
        replace(probe, name=f"path-{kind}-{name}", compared=False, **changes)
        for name, changes in switched
        for kind, probe in asked
    ]
    seen = ask(target, plan, ways)
    seen += _in_training_mode(target, plan, asked) + _under_a_full_mask(target, plan, asked)
    return seen if len(seen) > len(asked) else []


def argument_switches(plan: Plan) -> list[tuple[str, bool]]:
    """Return optional arguments that only pick a path or a way to return the same, with their other value."""
    return [
        (parameter.name, parameter.default == "False")
        for parameter in plan.parameters
        if parameter.default in {"True", "False"} and _PICKS_A_PATH.search(parameter.name)
    ]


def setting_switches(sketch: Sketch) -> list[tuple[str, bool]]:
    """Return the switches that a module holds and that pick another path, each with its other value."""
    return [
        (path, not value)
        for path, value in sketch.settings.items()
        if isinstance(value, bool) and _PICKS_A_PATH.search(path.rpartition(".")[2])
    ]


def _in_training_mode(target: Target, plan: Plan, asked: Sequence[tuple[str, Probe]]) -> list[Observation]:
    """A module in training mode without its dropout, when nothing else in it is random."""
    if target.sketch.kind == "function":
        return []
    off = plan.abilities.dropout.off if plan.abilities.dropout is not None else {}
    probes = [
        replace(p, name=f"path-{kind}-training mode", training=True, compared=False, **off)
        for kind, p in asked
    ]
    first, again = ask(target, plan, probes), ask(target, plan, [replace(p, seed=1) for p in probes])
    same = all(
        a.output is not None and b.output is not None and torch.equal(a.output, b.output)
        for a, b in zip(first, again, strict=True)
    )
    return first if same else []


def _under_a_full_mask(target: Target, plan: Plan, asked: Sequence[tuple[str, Probe]]) -> list[Observation]:
    """A mask that hides nothing beside none at all."""
    free = next((probe for kind, probe in asked if kind == "plain" and probe.case.allowed_mask is None), None)
    if free is None or plan.mask is None or plan.abilities.always_causal:
        return []
    case = free.case.but(allowed_mask=CaseBuilder(plan.abilities, free.case.q.dtype).full_mask(free.case))
    return ask(target, plan, [Probe("path-plain-with a mask that hides nothing", case, compared=False)])
