"""A module that nothing explains, asked again with the norms of its queries and keys handed through."""

from __future__ import annotations

from dataclasses import replace

from softlookup.checker.calls import Target
from softlookup.checker.explaining import Explanation, Look, explain_forward, look_at
from softlookup.checker.weight_names import norms_inside


def explain_without_norms(target: Target, looks: list[Look], words: str) -> Explanation | None:
    """Return what explains the module once its inner norms do nothing; None where nothing does, or none is.

    What an unusual norm computes is its own business: the lookup behind it can still be right or wrong.
    """
    plans = []
    for plan in (look.plan for look in looks):
        wiring = plan.abilities.wiring
        inner = norms_inside(target.sketch, wiring.bypassed) if wiring is not None else ()
        if wiring is None or not inner:
            return None
        can = replace(plan.abilities, wiring=wiring.but(bypassed=wiring.bypassed + inner))
        words_of = "what it computes is not known here; the lookup was checked without it"
        plans.append(
            plan.but(abilities=can, left_out=(*plan.left_out, *((path, words_of) for path in inner)))
        )
    found = explain_forward(target, [look_at(target, plan) for plan in plans], words)
    return None if found.hypothesis is None else found
