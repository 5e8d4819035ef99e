"""Find out how a mask is spelled: its axes, its dtype, and what True means where nobody says so."""

from __future__ import annotations

import re
from dataclasses import replace

from softlookup.checker.layouts import axes_of
from softlookup.checker.plan import Plan
from softlookup.checker.reading import Reading
from softlookup.checker.spelling import MaskSpelling
from softlookup.checker.trying import Trial, Trying, cannot_adapt, distance, failed


class MaskFinder(Trying):
    """Tries every spelling of a mask that the author's words leave open."""

    def masks(self, plan: Plan) -> list[Plan]:
        """Return the plan with the spelling under which the target is right, else the likeliest few.

        Raises: CannotAdaptError when every spelling makes the target raise.
        """
        names = [n for n, role in plan.roles.items() if role in {"mask", "lengths"}]
        if not names:
            return [plan]
        trials: list[Trial] = []
        for name in names[:2]:
            for rank, spelling in enumerate(spellings_of(plan, name, self.reading)):
                for unless_masked in (False, True) if self._may_replace_causal(plan, spelling) else (False,):
                    trials.append(self._mask_trial(plan, spelling, rank, unless_masked))
                    if trials[-1].error < self.tolerance:
                        return [trials[-1].plan]
        # A mask on the wrong axis runs only where the sizes happen to be equal.
        ran = [t for t in trials if t.ran] or [t for t in trials if self._runs_in_a_square(t.plan)]
        why = failed(trials[0].seen)[0]
        no_tensor = "'Tensor' object has no attribute" in why  # it takes an object that holds one
        if not ran and (no_tensor or not (self.reading.mask_kind or self.reading.mask_values)):
            words = f"no boolean, integer or additive mask is accepted ({why})"
            return [plan.but(mask=None, left_out=(*plan.left_out, (names[0], words)))]
        if not ran:
            raise cannot_adapt(self, [failed(trial.seen) for trial in trials])
        likeliest = min(ran, key=lambda trial: trial.rank)
        chosen = [trial.plan for trial in ran if _axes_in(trial) == _axes_in(likeliest)]
        return chosen[:4]

    def _runs_in_a_square(self, plan: Plan) -> bool:
        """Say whether it runs with as many tokens as samples, or as heads."""
        squares = ["equal-axes"] + ["tokens-as-heads"] * (plan.abilities.wiring is not None)
        return any(self.attempt(plan, name).output is not None for name in squares)

    def _may_replace_causal(self, plan: Plan, spelling: MaskSpelling) -> bool:
        """Say whether the causal rule may go with a mask: that of keys alone cannot take its place."""
        unsaid = "causal" not in self.reading.facts or self.reading.mask_decides_alone
        return plan.abilities.always_causal and unsaid and "T_q" in spelling.axes

    def _mask_trial(self, plan: Plan, spelling: MaskSpelling, rank: int, unless_masked: bool) -> Trial:
        axes = frozenset(axes_of(" ".join(spelling.axes))) - {"1"}
        can = replace(
            plan.abilities,
            mask_axes=frozenset({"B", "T_k"}) if spelling.kind == "lengths" else axes,
            causal_unless_masked=unless_masked,
            bias=spelling.kind == "additive",
        )
        attempt = plan.but(mask=spelling, abilities=replace(can, mask_always=plan.mask_required))
        name = "padding" if spelling.kind == "lengths" or "T_q" not in axes else "masked"
        seen = self.attempt(attempt, name)
        return Trial(attempt, seen, distance(seen), rank)


def _axes_in(trial: Trial) -> tuple[str, ...]:
    """The axes of the mask that a trial was asked with."""
    return trial.plan.mask.axes if trial.plan.mask else ()


def spellings_of(plan: Plan, name: str, reading: Reading) -> list[MaskSpelling]:
    """Return every way to spell a mask for this parameter, likely ones first."""
    if plan.roles.get(name) == "lengths":
        return [MaskSpelling(name, "lengths", "int", ("B",))]
    stated_axes = reading.mask_axes
    kinds = [reading.mask_kind] if reading.mask_kind else ["allowed", "blocked", "additive"]
    found: list[MaskSpelling] = []
    for axes in [stated_axes] if stated_axes else _mask_shapes(plan, name):
        for kind in kinds:
            stated = tuple(v for v in reading.mask_values if kind != "additive")
            for values in ("float",) if kind == "additive" else stated or ("bool", "int", "float"):
                found.append(MaskSpelling(name, kind, values, axes))
    # The plain boolean of every shape first, then the rarer spellings.
    order = {"allowed": 0, "blocked": 1, "additive": 2}
    return sorted(found, key=lambda s: (s.values != "bool" and s.kind != "additive", order[s.kind]))


def _mask_shapes(plan: Plan, name: str) -> list[tuple[str, ...]]:
    """Shapes of a mask in the order of likelihood for this layout and this name."""
    axes = axes_of(plan.layout)
    full: dict[str, list[tuple[str, ...]]] = {
        "B H T d": [("B", "1", "T_q", "T_k"), ("B", "T_q", "T_k"), ("T_q", "T_k"), ("B", "H", "T_q", "T_k")],
        "B T d": [("B", "T_q", "T_k"), ("T_q", "T_k")],
        "T d": [("T_q", "T_k")],
        "H T d": [("T_q", "T_k"), ("1", "T_q", "T_k")],
    }
    chosen: list[tuple[str, ...]]
    if "(B H)" in plan.layout:
        chosen = [("(B H)", "T_q", "T_k"), ("B", "T_q", "T_k"), ("T_q", "T_k")]
    elif "B" in axes and "H" in axes:
        chosen = full["B H T d"]
    elif "B" in axes:
        chosen = full["B T d"]
    else:
        chosen = full["H T d" if "H" in axes else "T d"]
    keys: list[tuple[str, ...]] = [("T_k",)]
    if "B" in axes:
        keys = [("B", "T_k"), ("B", "1", "1", "T_k"), ("B", "1", "T_k")]
    return [*keys, *chosen] if re.search(r"pad|key|valid|memory|src", name.lower()) else [*chosen, *keys]
