"""A module with two inputs that runs only while both have the same number of tokens."""

from __future__ import annotations

import re
from dataclasses import replace

from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Failure, Target
from softlookup.checker.docstrings import documentation, notes_by_parameter
from softlookup.checker.plan import Plan, ask
from softlookup.checker.probes import plain_case

_SHAPE = re.compile(r"[\[(]([^\[\]()]*,[^\[\]()]*)[\])]")


def raised_for_other_lengths(target: Target, plan: Plan) -> Failure | None:
    """Return what is raised with more source tokens than target tokens; None when nothing is."""
    can = plan.abilities
    if can.wiring is None or can.wiring.source == "self" or can.rectangular:
        return None
    longer = plan.but(abilities=replace(can, rectangular=True))
    seen = ask(target, longer, [Probe("plain", plain_case(longer.abilities))])
    return seen[0].failure if seen else None


def other_lengths_are_promised(target: Target, plan: Plan) -> bool:
    """Say whether the words, or the names of a memory, allow another length than that of the target.

    Words that give both inputs one shape promise no more than that.
    """
    notes = notes_by_parameter(documentation(target.sketch), plan.parameters)
    asking = _axes(notes, next((n for n, role in plan.roles.items() if role in {"x", "q"}), ""))
    answering = _axes(notes, next((n for n, role in plan.roles.items() if role in {"memory", "k"}), ""))
    if asking and answering:
        return asking != answering
    wiring = plan.abilities.wiring
    return wiring is not None and wiring.source == "cross" and wiring.asker_stated


def _axes(notes: dict[str, str], name: str) -> list[str]:
    """The axes that words give an input, without its features: "(B, T_q, d)" has B and T_q."""
    found = _SHAPE.search(notes.get(name, ""))
    return [axis.strip() for axis in found[1].split(",")][:-1] if found else []
