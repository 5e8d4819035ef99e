"""Work out how a target is called, and what it means by it: names first, then shapes, then behaviour.

Every axis of the trial inputs has a size of its own, so that most wrong guesses fail by themselves. Where
several guesses run, the one under which the target is right is taken: a convention is measured, not judged.
What the author wrote down (a name, a docstring, a Contract) is not up for guessing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from softlookup.checker.calls import Target
from softlookup.checker.find_layer import LayerFinder
from softlookup.checker.find_layout import LayoutFinder
from softlookup.checker.find_masks import MaskFinder
from softlookup.checker.find_rules import RuleFinder
from softlookup.checker.plan import Plan
from softlookup.checker.reading import Reading, Use, read
from softlookup.checker.spelling import MaskSpelling
from softlookup.checker.trying import CannotAdaptError
from softlookup.terms import Contract


class Adapter:
    """Finds the plans under which a target can be examined, best first."""

    def __init__(self, target: Target, declared: Contract, use: Use | None = None) -> None:
        self.target = target
        self.reading = _override(read(target.sketch, use), declared)
        self.declared = declared

    def in_layout(self, layout: str | None) -> Adapter:
        """Return an adapter that takes this as the layout."""
        return Adapter(
            self.target, self.declared if layout is None else replace(self.declared, layout=layout)
        )

    def ways(self) -> list[Adapter]:
        """Return one adapter for each thing that a module promises: with or without memory, mask by mask."""
        if not self.target.sketch.has_weights:
            stated = self.reading.layouts
            return [self.in_layout(layout) for layout in stated] if len(stated) > 1 else [self]
        uses = self.reading.uses(self.target.sketch)
        return [Adapter(self.target, self.declared, use) for use in uses]

    def plans(self) -> list[Plan]:
        """Return one plan, or several when the meaning of a mask stays open.

        Raises: CannotAdaptError when no guess makes the target return an output of the right shape.
        """
        try:
            return self._plans_in(self.declared)
        except CannotAdaptError:
            if self.declared.dtype not in {"float16", "bfloat16"}:
                raise
            # What raises only in half precision is to be judged there, not here.
            return self._plans_in(replace(self.declared, dtype="float32"))

    def _plans_in(self, declared: Contract) -> list[Plan]:
        known = (self.target, self.reading, declared)
        if self.target.sketch.has_weights:
            started = LayerFinder(*known).layers()
        else:
            layouts = LayoutFinder(*known)
            started = [layouts.grouped(layouts.layout())]
        found: list[Plan] = []
        problems: list[CannotAdaptError] = []
        for start in started:
            try:
                found += self._with_rules(known, start)
            except CannotAdaptError as problem:  # a wrong guess of the projections may fit no mask
                problems.append(problem)
        if problems and not found:
            raise problems[0]
        return found

    def _with_rules(self, known: tuple[Target, Reading, Contract], plan: Plan) -> list[Plan]:
        """Find out the rules of position and the masks of one way to call the target."""
        rules = RuleFinder(*known)
        plan = rules.window(rules.causality(plan))
        found = [self._finish(candidate) for candidate in MaskFinder(*known).masks(plan)]
        can = plan.abilities
        if (can.always_causal or can.causal) and can.rectangular and "corner" not in self.reading.facts:
            # Self-attention that was never meant for T_q != T_k.
            found += [p.but(abilities=replace(p.abilities, rectangular=False)) for p in found]
        return found

    def _finish(self, plan: Plan) -> Plan:
        can, facts = plan.abilities, self.reading.facts
        integers = (
            self.reading.integer_mask and plan.mask is not None and plan.mask.kind in {"allowed", "blocked"}
        )
        can = replace(
            can,
            scale="scale" in plan.roles.values(),
            bias=can.bias or "bias" in plan.roles.values(),
            documents="documents" in plan.roles.values(),
            target_mask="target_mask" in plan.roles.values() and self._in_cross_attention(plan),
            integer_mask=integers,
            fixed_scale=facts.get("scale"),
            max_score=self.declared.max_score or can.max_score,
        )
        causal = "argument" if can.causal else "none" if not can.always_causal else "built-in"
        contract = Contract(
            **{
                **facts,
                "layout": plan.packed_layout or plan.layout,
                "mask": plan.mask.kind
                if plan.mask and plan.mask.kind != "lengths"
                else "allowed"
                if plan.mask
                else "none",
                "mask_shape": " ".join(plan.mask.axes) if plan.mask else None,
                "causal": causal,
                "window": can.fixed_window,
                "corner": can.corner if (can.causal or can.always_causal) and can.rectangular else None,
                "returns": None,
                "kv_heads": ("grouped" if can.grouped else "equal") if can.heads else None,
                "dtype": self.declared.dtype,
                "max_score": self.declared.max_score,
                "arguments": ", ".join(
                    f"{n}" if role in {n, None} else f"{role}={n}" for n, role in plan.roles.items()
                ),
            },
            declared=self._declared_names(),
        )
        return plan.but(abilities=can, contract=contract, target_mask=self._target_mask(plan))

    @staticmethod
    def _in_cross_attention(plan: Plan) -> bool:
        wiring = plan.abilities.wiring
        return wiring is not None and wiring.source != "self"

    def _target_mask(self, plan: Plan) -> MaskSpelling | None:
        """Spell the mask of the target as that of the memory, unless its own words say otherwise."""
        name = next((name for name, role in plan.roles.items() if role == "target_mask"), None)
        if name is None:
            return None
        if re.search(r"len", name, re.I):
            return MaskSpelling(name, "lengths", "int", ("B",))
        like = (
            plan.mask
            if plan.mask and plan.mask.kind != "lengths"
            else MaskSpelling("", "allowed", axes=("B", "T_k"))
        )
        kind = self.reading.target_mask_kind or like.kind
        return replace(like, parameter=name, kind=kind, values="float" if kind == "additive" else like.values)

    def _declared_names(self) -> frozenset[str]:
        read_ones = {
            name
            for name, value in (
                ("layout", self.reading.layouts),
                ("mask", self.reading.mask_kind),
                ("mask_shape", self.reading.mask_axes),
            )
            if value
        }
        return frozenset(read_ones | set(self.reading.facts) | set(self.declared.declared))


def _override(reading: Reading, declared: Contract) -> Reading:
    """What the caller declares comes before what the code says."""
    facts: dict[str, Any] = dict(reading.facts)
    for name in (
        "causal",
        "corner",
        "self_visible",
        "window",
        "scale",
        "empty_rows",
        "hidden_nan",
        "half",
        "weights",
    ):
        value = getattr(declared, name)
        if value is not None:
            facts[name] = value
    axes = tuple(declared.mask_shape.split()) if declared.mask_shape else reading.mask_axes
    kind = reading.mask_kind if declared.mask in {None, "none"} else declared.mask
    strict = " strictly causal" if facts.get("self_visible") is False else ""
    return replace(
        reading,
        facts=facts,
        words=reading.words + strict,
        layouts=(declared.layout,) if declared.layout else reading.layouts,
        mask_kind=kind,
        mask_axes=axes,
    )
