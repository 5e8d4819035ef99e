"""Find out which rules of position are built in or can be asked for: causal, its corner, windows."""

from __future__ import annotations

import re
from dataclasses import replace

from torch import Tensor

from softlookup.checker.abilities import Probe
from softlookup.checker.plan import Plan
from softlookup.checker.trying import Trying, distance
from softlookup.terms import Case, Corner

#: Settings that say how far a query sees.
_WINDOW = re.compile(r"(config\.)?(sliding_|local_|attn_|attention_|left_)?window(_size|_len|_length|_left)?")


class RuleFinder(Trying):
    """Measures causality and windows, unless they are declared."""

    def causality(self, plan: Plan) -> Plan:
        """Return the plan with what is causal in it, and from which corner."""
        facts, can = self.reading.facts, plan.abilities
        stated = facts.get("causal")
        if stated == "argument":
            asked = self.case(plan, "square").but(causal="top-left")
            raised = self.attempt(plan, "causal", case=asked).failure
            can = replace(can, causal=raised is None)
            if raised is not None:  # such as a flag that is only a hint about the mask
                name = next(name for name, role in plan.roles.items() if role == "causal")
                plan = plan.but(left_out=(*plan.left_out, (name, raised.message.partition("\n")[0][:160])))
        elif stated == "built-in" or (
            stated is None and not self._sees_another(plan) and self._measured_causal(plan)
        ):
            can = replace(can, always_causal=True)
        plan = plan.but(abilities=can)
        if not (can.causal or can.always_causal) or not can.rectangular:
            return plan.but(abilities=replace(can, corner=facts.get("corner", "top-left")))
        if "corner" in facts:
            return plan.but(abilities=replace(can, corner=facts["corner"]))
        case = self.case(plan, "plain").but(causal="top-left")
        seen = self.attempt(plan, "corner", case=case)
        corners: tuple[Corner, ...] = ("top-left", "bottom-right")
        nearest = min(corners, key=lambda corner: distance(seen, case.but(causal=corner)))
        if distance(seen, case.but(causal=nearest)) > self.tolerance:
            nearest = self._corner_by_influence(plan, case) or nearest
        return plan.but(abilities=replace(can, corner=nearest))

    def _corner_by_influence(self, plan: Plan, case: Case) -> Corner | None:
        """Whether the first query sees the second key tells the corner even when the values are wrong."""
        found = self._rows_moved_by(plan, case, 2)
        if found is None:
            return None
        moved = found[0]
        if bool(moved.all()) and case.k.shape[-2] - case.q.shape[-2] >= 2:
            return "bottom-right"
        # Also where the triangle is upside down: rows 0 and 1 on one side of key 2, the others on the other.
        return "top-left" if len(set(moved[:2].tolist())) == 1 and bool(moved[0]) != bool(moved[2]) else None

    def _sees_another(self, plan: Plan) -> bool:
        """Say whether keys come from a sequence of their own: that all of it is seen goes without saying."""
        return "memory" in self.reading.roles.values() and "memory" in plan.roles.values()

    def _measured_causal(self, plan: Plan) -> bool:
        """Say whether it is causal unasked: the last key moves no earlier row, the first all later ones."""
        case = self.case(plan, "square")
        found = self._rows_moved_by(plan, case, -1, 0)
        if found is None or not bool(found[1][1:].any()):
            return False  # where the first key moves nobody, tokens never see each other at all
        by_last = found[0]
        return bool(by_last[-1]) and not bool(by_last[:-1].any())

    def _rows_moved_by(self, plan: Plan, case: Case, *keys: int) -> list[Tensor] | None:
        """[T_q] bool for each key: rows whose output differs when this key and value do.

        None when one of them cannot be asked.
        """
        changed = [Probe(f"another key {key}", self._with_another_key(plan, case, key)) for key in keys]
        before, *after = [seen.output for seen in self.ask(plan, Probe("before", case), *changed)]
        if before is None or any(output is None for output in after):
            return None
        differ = [(before - output).abs() for output in after if output is not None]
        return [one.amax(dim=(0, 1, 3)) > 1e-6 for one in differ]

    @staticmethod
    def _with_another_key(plan: Plan, case: Case, key: int) -> Case:
        q, k, v = (t.clone() for t in (case.q, case.k, case.v))
        for tensor in (q, k, v) if plan.abilities.one_source else (k, v):
            tensor[:, :, key] += 1
        return case.but(q=q, k=k, v=v)

    def window(self, plan: Plan) -> Plan:
        """Return the plan with the window, and what its number counts."""
        can, facts = plan.abilities, self.reading.facts
        if "window" in facts:
            return plan.but(abilities=replace(can, fixed_window=facts["window"]))
        if "window" not in plan.roles.values():
            return self._built_in_window(plan)
        can = replace(can, window=True)
        plan = plan.but(abilities=can, window_counts=self.reading.window_counts or "keys")
        readings = (plan.window_counts,) if self.reading.window_counts else ("keys", "lookback")
        causal = can.corner if can.causal or can.always_causal else None
        for counts in readings:
            for ahead in (False,) if causal else (False, True):
                attempt = plan.but(window_counts=counts, abilities=replace(can, window_ahead=ahead))
                if self._window_error(attempt, ahead, causal) < self.tolerance:
                    both_ways = can.causal and self._window_error(attempt, True, None) < self.tolerance
                    return attempt.but(abilities=replace(attempt.abilities, window_ahead_alone=both_ways))
        return plan

    def _built_in_window(self, plan: Plan) -> Plan:
        """A window that a module holds as a setting: how many keys it shows says what the number counts."""
        stated = next((v for path, v in self.sketch.settings.items() if _WINDOW.fullmatch(path)), None)
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 1:
            return plan
        counts = self.reading.window_counts
        readings = [stated + (counts == "lookback")] if counts else [stated, stated + 1]
        causal = plan.abilities.corner if plan.abilities.always_causal else None
        seen = self._keys_seen(plan)
        if seen is None or (False not in seen and not (self._promises_window() and len(seen) > readings[-1])):
            return plan
        shown = seen.index(False) if False in seen else None
        window = next((keys for keys in readings if keys == shown), readings[0])
        return plan.but(
            abilities=replace(plan.abilities, fixed_window=window, window_ahead=causal is None),
            window_counts=counts or "keys",
        )

    def _promises_window(self) -> bool:
        """Say whether the words promise a window that no caller can be meant to hand over as a mask."""
        axes = self.reading.mask_axes
        from_caller = "mask" in self.reading.roles.values() and (axes is None or "T_q" in axes)
        return not from_caller and bool(re.search(r"window|local", self.reading.words))

    def _keys_seen(self, plan: Plan) -> list[bool] | None:
        """Which of the last keys the last query sees, its own first; None where that cannot be asked."""
        case = self.case(plan, "long-square")
        T = case.k.shape[-2]
        moved = self._rows_moved_by(plan, case, *range(T - 1, max(-1, T - 12), -1))
        return None if moved is None else [bool(rows[-1]) for rows in moved]

    def _window_error(self, plan: Plan, ahead: bool, causal: Corner | None) -> float:
        case = self.case(plan, "square").but(window=3, window_ahead=ahead, causal=causal)
        return distance(self.attempt(plan, "window", case=case))
