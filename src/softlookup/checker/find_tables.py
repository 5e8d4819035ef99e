"""Find out in which form a module takes the tables of its rotary positions."""

from __future__ import annotations

from dataclasses import replace

from softlookup.checker.abilities import Probe
from softlookup.checker.evidence import Evidence, Observation
from softlookup.checker.given_tables import TABLES, likely_forms
from softlookup.checker.plan import Plan
from softlookup.checker.rotations import best_rotation, likely_rotations, rotated_scores
from softlookup.checker.trying import Trying
from softlookup.terms import Corner

#: Guesses on which the forms are tried: one of them has mostly the right layout.
_GUESSES = 6


class TableFinder(Trying):
    """Tries forms until the module takes one; of several, one under which it rotates as is right."""

    def with_tables(self, plans: list[Plan]) -> list[Plan]:
        """Return the plans, their tables in the form that runs.

        Where none runs, tables that may be left out are; the others stay as they were.
        """
        if not plans or not set(TABLES) & set(plans[0].roles.values()):
            return plans
        for plan in plans[:_GUESSES]:
            ran = []
            for form in likely_forms(plan.roles):
                tried = _in_form(plan, form)
                seen = self.ask(tried, Probe("plain", self.case(tried, "plain")))[0]
                if seen.output is None or not seen.output.isfinite().all():
                    continue  # no numbers come of a table that is none to it
                if self._rotates(seen):
                    return [_in_form(one, form) for one in plans]
                ran.append(form)
            if ran:
                return [_in_form(one, ran[0]) for one in plans]
        return [self._without_tables(plan) for plan in plans]

    def _without_tables(self, plan: Plan) -> Plan:
        optional = {p.name for p in self.parameters if not p.required}
        left_out = {name for name, role in plan.roles.items() if role in TABLES and name in optional}
        return plan.but(roles={**plan.roles, **dict.fromkeys(left_out, "unused")})

    def _rotates(self, seen: Observation) -> bool:
        corners: tuple[Corner | None, ...] = (None, "top-left")
        for causal in corners:
            case = seen.case.but(causal=causal)
            evidence = Evidence(self.declared, (replace(seen, case=case),), sketch=self.sketch)
            if best_rotation(evidence, likely_rotations(evidence), rotated_scores) is not None:
                return True
        return False


def _in_form(plan: Plan, form: str) -> Plan:
    roles = {name: f"{role} {form}" if role in TABLES else role for name, role in plan.roles.items()}
    return plan.but(roles=roles)
