"""Find out which argument is which, and in which layout: by names, then by trying every layout."""

from __future__ import annotations

import re
from dataclasses import replace

from softlookup.checker.abilities import Abilities, Probe
from softlookup.checker.evidence import Observation
from softlookup.checker.find_masks import spellings_of
from softlookup.checker.layouts import axes_of
from softlookup.checker.plan import Plan
from softlookup.checker.trying import (
    Trial,
    Trying,
    candidate_layouts,
    cannot_adapt,
    distance,
    failed,
)
from softlookup.terms import Case

_PACKED = (
    "B T 3 H d",
    "B 3 H T d",
    "3 B H T d",
    "B T H 3 d",
    "3 B T H d",
    "B H T 3 d",
    "B T 3 d",
    "T 3 H d",
    "3 B T d",
)
_POSITIONAL = {"positional", "positional-only", "keyword-only"}


class LayoutFinder(Trying):
    """Finds the roles, the layout and where the output sits."""

    def layout(self) -> Plan:
        """Return the first plan under which the target runs, a right one if there is any."""
        guesses = self._guesses()
        trials, failures = self._tried(guesses)
        if not trials and "scale" in self.reading.roles.values():
            # A scale that may be None, and must not.
            trials, _ = self._tried([plan.but(scale_always=True) for plan in guesses])
        if not trials:
            raise cannot_adapt(self, failures)
        return self._pick(trials)

    def _tried(self, guesses: list[Plan]) -> tuple[list[Trial], list[tuple[str, int | None]]]:
        """Return the guesses that ran, and for the others what came instead and on which line."""
        trials: list[Trial] = []
        probes = [Probe("plain", self.case(plan, "plain")) for plan in guesses]
        calls = [(plan, probe, plan.spell(probe)) for plan, probe in zip(guesses, probes, strict=True)]
        asked = [(plan, probe, call) for plan, probe, call in calls if call is not None]
        answers = self.target.perform([call for _, _, call in asked])
        failures: list[tuple[str, int | None]] = []
        for rank, ((plan, probe, _), answer) in enumerate(zip(asked, answers, strict=True)):
            readings = [(plan, plan.read(probe, answer)) for plan in plan.readings()]
            ran = [(plan, seen, self._nearest(seen)) for plan, seen in readings if seen.output is not None]
            if not ran:
                failures.append(failed(readings[0][1], answer.result))
                continue
            plan, seen, error = next((found for found in ran if found[2] <= self.tolerance), ran[0])
            trials.append(Trial(plan.shows(answer.result, seen.case), seen, error, rank))
        return trials, failures

    def _pick(self, trials: list[Trial]) -> Plan:
        """Prefer a layout in which the target is right, then one that allows different lengths."""
        first: dict[tuple[object, ...], Trial] = {}
        for trial in trials:  # within a layout the most general sizes that ran
            p = trial.plan
            first.setdefault((p.layout, p.key_layout, p.packed_layout, str(p.roles), p.mask), trial)
        return min(
            first.values(),
            key=lambda t: (t.error > self.tolerance, not t.plan.abilities.rectangular, t.rank),
        ).plan

    def _nearest(self, seen: Observation) -> float:
        """Distance to plain or causal attention, whichever is nearer."""
        cases: list[Case] = [seen.case.but(causal=corner) for corner in (None, "top-left", "bottom-right")]
        return min(distance(seen, case) for case in cases)

    def _guesses(self) -> list[Plan]:
        """Every way of calling that is worth a try, likely ones first."""
        plans: list[Plan] = []
        for roles in self._role_guesses():
            packed = "qkv" in roles.values()
            one = "x" in roles.values()
            layouts = candidate_layouts(self.reading)
            if packed:
                stated = self.reading.packed_layout
                layouts = (stated,) if stated else _PACKED
            for layout in layouts:
                plain = " ".join(a for a in layout.split() if a != "3") if packed else layout
                for rectangular, own_width in ((True, True), (True, False), (False, True), (False, False)):
                    if (packed or one) and (rectangular or own_width):
                        continue
                    can = Abilities(
                        batch="B" in axes_of(plain),
                        heads="H" in axes_of(plain) or "G" in axes_of(plain),
                        rectangular=rectangular,
                        own_value_width=own_width,
                        one_source=one,
                        gradients=self.sketch.differentiable and not packed,
                    )
                    plan = Plan(
                        self.parameters,
                        roles,
                        layout=plain,
                        key_layout=self._key_layout(plain, roles),
                        packed_layout=layout if packed else None,
                        abilities=can,
                    )
                    plans += self._with_required_masks(plan)
                    if plan.key_layout is None and not packed and not one and rectangular:
                        flipped = _flip_last(plain)
                        plans += self._with_required_masks(plan.but(key_layout=flipped)) if flipped else []
                    if layout in {"B H T d", "B T H d"} and not packed and rectangular:
                        one_head = replace(can, one_kv_head=True)
                        shared = plan.but(key_layout="B T d", value_layout="B T d", abilities=one_head)
                        plans += self._with_required_masks(shared)
        return plans

    def _key_layout(self, layout: str, roles: dict[str, str]) -> str | None:
        stated = self.reading.key_layout
        if stated and stated != layout and axes_of(stated) != axes_of(layout):
            return stated if sorted(axes_of(stated)) == sorted(axes_of(layout)) else None
        name = next((n for n, role in roles.items() if role == "k"), "")
        return _flip_last(layout) if re.search(r"_?t$|transposed", name) and len(name) > 1 else None

    def _role_guesses(self) -> list[dict[str, str]]:
        roles = dict(self.reading.roles)
        known = set(roles.values())
        free = [
            p.name for p in self.parameters if p.required and p.name not in roles and p.kind in _POSITIONAL
        ]
        if "qkv" in known or {"q", "k", "v"} <= known:
            return [roles]
        if len(free) >= 3 - len(known & {"q", "k", "v"}) and len(known & {"q", "k", "v"}) < 3:
            missing = [role for role in ("q", "k", "v") if role not in known]
            orders = (
                [missing]
                if len(missing) < 3
                else [["q", "k", "v"], ["k", "v", "q"], ["q", "v", "k"], ["v", "k", "q"]]
            )
            return [{**roles, **dict(zip(free, order, strict=False))} for order in orders]
        if len(free) == 1 or any(p.name in {"x", "inputs", "tokens"} for p in self.parameters):
            name = free[0] if free else self.parameters[0].name
            return [{**roles, name: "x"}, {**roles, name: "qkv"}]
        return []

    def _with_required_masks(self, plan: Plan) -> list[Plan]:
        """A mask without a default must be given even when it hides nothing."""
        name = next((n for n, role in plan.roles.items() if role in {"mask", "lengths"}), None)
        if name is None or not any(p.name == name and p.required for p in self.parameters):
            return [plan]
        plain = plan.but(mask_required=True)
        # None often means "no mask" even where the parameter has no default.
        spelled = [plain.but(mask=spelling) for spelling in spellings_of(plan, name, self.reading)]
        return [*spelled, plan.but(mask=None)]

    def grouped(self, plan: Plan) -> Plan:
        """Return the plan with grouped heads, when the target takes fewer key/value heads."""
        can = plan.abilities
        if not can.heads or can.one_kv_head or can.one_source or plan.packed_layout or not can.rectangular:
            return plan
        grouped = plan.but(abilities=replace(can, grouped=True))
        seen = self.attempt(grouped, "plain")
        return grouped if seen.output is not None else plan


def _flip_last(layout: str) -> str | None:
    """ "B H T d" -> "B H d T": keys handed over transposed."""
    axes = layout.split()
    return " ".join([*axes[:-2], "d", "T"]) if axes[-2:] == ["T", "d"] else None
