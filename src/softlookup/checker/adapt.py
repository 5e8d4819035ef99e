"""Work out how a target is called, and what it means by it: names first, then shapes, then behaviour.

Every axis of the trial inputs has a size of its own, so that most wrong guesses fail by themselves. Where several
guesses run, the one under which the target is right is taken: a convention is measured, not judged. What the author
wrote down (a name, a docstring, a Contract) is not up for guessing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.abilities import Abilities, Probe
from softlookup.checker.calls import Target
from softlookup.checker.evidence import Observation
from softlookup.checker.layouts import axes_of, restore
from softlookup.checker.plan import Plan, ask, leaves, path_of
from softlookup.checker.probes import suite
from softlookup.checker.reading import Reading, read
from softlookup.checker.spelling import MaskSpelling, sizes_of
from softlookup.terms import Case, Contract, Corner, SoftlookupError

_LAYOUTS = ("B H T d", "B T H d", "B T d", "T d", "H T d", "T H d", "(B H) T d", "T B d", "B H d T", "B d T")
_FOLDED = ("B T (H d)", "T B (H d)", "T (H d)")
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
_QUICK_TOLERANCE = 1e-3  # float32 answers either agree to about 1e-6 or differ by far more than this


class CannotAdaptError(SoftlookupError):
    """No way was found to call the target; the words say what was tried."""

    line: int | None = None  # where most attempts failed


def distance(seen: Observation, case: Case | None = None) -> float:
    """Largest difference from the reference over real rows; infinite when there is no comparable output."""
    if seen.output is None:
        return float("inf")
    case = case or seen.case
    wanted = STEPS(as_double(case))[0]
    allowed = STEPS.visible(case)
    rows = slice(None) if allowed is None else allowed.any(-1).expand(case.q.shape[:-1])
    difference = (seen.output.double() - wanted)[rows].abs()
    return (
        float("inf") if difference.isnan().any() else float(difference.max()) if difference.numel() else 0.0
    )


def as_double(case: Case) -> Case:
    """The same case in float64, for reference answers."""
    return case.but(
        q=case.q.double(),
        k=case.k.double(),
        v=case.v.double(),
        additive_bias=None if case.additive_bias is None else case.additive_bias.double(),
    )


@dataclass(frozen=True)
class _Trial:
    """One guess and how the target took it."""

    plan: Plan
    seen: Observation
    error: float
    rank: int

    @property
    def ran(self) -> bool:
        return self.seen.output is not None


class Adapter:
    """Finds the plans under which a target can be examined, best first."""

    def __init__(self, target: Target, declared: Contract) -> None:
        self.target = target
        self.sketch = target.sketch
        self.reading = _override(read(self.sketch), declared)
        self.declared = declared
        self.dtype = getattr(torch, declared.dtype or "float32")

    def in_layout(self, layout: str | None) -> Adapter:
        """Return an adapter that takes this as the layout."""
        return Adapter(
            self.target, self.declared if layout is None else replace(self.declared, layout=layout)
        )

    def plans(self) -> list[Plan]:
        """Return one plan, or several when the meaning of a mask stays open.

        Raises: CannotAdaptError when no guess makes the target return an output of the right shape.
        """
        plan = self._layout()
        plan = self._grouped(plan)
        plan = self._causality(plan)
        plan = self._window(plan)
        found = [self._finish(candidate) for candidate in self._masks(plan)]
        can = plan.abilities
        if (can.always_causal or can.causal) and can.rectangular and "corner" not in self.reading.facts:
            # Self-attention that was never meant for T_q != T_k.
            found += [p.but(abilities=replace(p.abilities, rectangular=False)) for p in found]
        return found

    def _try(self, plan: Plan, name: str, *, case: Case | None = None) -> Observation:
        return self._ask(plan, Probe(name, case or self._case(plan, name)))[0]

    def _ask(self, plan: Plan, *probes: Probe) -> list[Observation]:
        seen = {s.probe: s for s in ask(self.target, plan, list(probes))}
        return [seen.get(probe.name) or Observation(probe.name, probe.case) for probe in probes]

    def _case(self, plan: Plan, name: str) -> Case:
        return next(probe.case for probe in suite(plan.abilities, self.dtype) if probe.name == name)

    # ---- which argument is which, and in which layout ----

    def _layout(self) -> Plan:
        trials: list[_Trial] = []
        guesses: list[tuple[Plan, Probe]] = []
        for plan in self._guesses():
            probe = Probe("plain", self._case(plan, "plain"))
            guesses.append((plan, probe))
        calls = [(plan, probe, plan.spell(probe)) for plan, probe in guesses]
        asked = [(plan, probe, call) for plan, probe, call in calls if call is not None]
        answers = self.target.perform([call for _, _, call in asked])
        failures: list[tuple[str, int | None]] = []
        for rank, ((plan, probe, _), answer) in enumerate(zip(asked, answers, strict=True)):
            for layout in (None, *_other_layouts(plan.layout)):
                plan = plan.but(output_layout=layout)
                seen = plan.read(probe, answer)
                if seen.output is not None:
                    break
            if seen.output is None:
                failures.append((_reason(seen, answer.result), seen.failure.line if seen.failure else None))
                continue
            found = next((leaf for leaf in leaves(answer.result) if _is_output(plan, probe, leaf)), None)
            path = path_of(answer.result, found) if found is not None else ()
            trials.append(_Trial(plan.but(output_path=path or ()), seen, self._nearest(seen), rank))
        if not trials:
            raise self._cannot(failures)
        return self._pick(trials)

    def _cannot(self, failures: list[tuple[str, int | None]]) -> CannotAdaptError:
        common = max(failures, key=failures.count) if failures else ("", None)
        problem = CannotAdaptError(
            f"{self.sketch.name}: no way was found to call it as attention.",
            expected="an output with the query's axes and the values' width, for one of the layouts "
            + ", ".join(self._layouts()),
            got=common[0] or f"parameters ({', '.join(p.name for p in self.sketch.parameters)})",
            hint="declare it: --layout 'B H T d', or wrap it in a function f(q, k, v, allowed_mask=None)",
        )
        problem.line = common[1]
        return problem

    def _pick(self, trials: list[_Trial]) -> Plan:
        """A layout in which the target is right; else one that allows different lengths; else the first that ran."""
        first = {}
        for trial in trials:  # within a layout the most general sizes that ran
            p = trial.plan
            first.setdefault((p.layout, p.key_layout, p.packed_layout, str(p.roles), p.mask), trial)
        return min(
            first.values(),
            key=lambda t: (t.error > _QUICK_TOLERANCE, not t.plan.abilities.rectangular, t.rank),
        ).plan

    def _nearest(self, seen: Observation) -> float:
        """Distance to plain or causal attention, whichever is nearer."""
        cases: list[Case] = [seen.case.but(causal=corner) for corner in (None, "top-left", "bottom-right")]
        return min(distance(seen, case) for case in cases)

    def _layouts(self) -> tuple[str, ...]:
        if self.reading.layouts:
            return self.reading.layouts[:1]
        if "heads" in self.reading.roles.values():
            return (*_FOLDED, *_LAYOUTS)
        return _LAYOUTS

    def _guesses(self) -> list[Plan]:
        """Every way of calling that is worth a try, likely ones first."""
        plans: list[Plan] = []
        for roles in self._role_guesses():
            packed = "qkv" in roles.values()
            one = "x" in roles.values()
            layouts = self._layouts()
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
                        gradients=not packed,
                    )
                    plan = Plan(
                        self.sketch.parameters,
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
            p.name
            for p in self.sketch.parameters
            if p.required and p.name not in roles and p.kind in _POSITIONAL
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
        if len(free) == 1 or any(p.name in {"x", "inputs", "tokens"} for p in self.sketch.parameters):
            name = free[0] if free else self.sketch.parameters[0].name
            return [{**roles, name: "x"}, {**roles, name: "qkv"}]
        return []

    def _with_required_masks(self, plan: Plan) -> list[Plan]:
        """A mask without a default must be given even when it hides nothing."""
        name = next((n for n, role in plan.roles.items() if role in {"mask", "lengths"}), None)
        if name is None or not any(p.name == name and p.required for p in self.sketch.parameters):
            return [plan]
        plain = plan.but(mask_required=True)
        # None often means "no mask" even where the parameter has no default.
        spelled = [plain.but(mask=spelling) for spelling in self._spellings(plan, name)]
        return [*spelled, plan.but(mask=None)]

    # ---- grouped heads, causality, windows ----

    def _grouped(self, plan: Plan) -> Plan:
        can = plan.abilities
        if not can.heads or can.one_source or plan.packed_layout or not can.rectangular:
            return plan
        grouped = plan.but(abilities=replace(can, grouped=True))
        seen = self._try(grouped, "plain")
        return grouped if seen.output is not None else plan

    def _causality(self, plan: Plan) -> Plan:
        facts, can = self.reading.facts, plan.abilities
        stated = facts.get("causal")
        if stated == "argument":
            can = replace(can, causal=True)
        elif stated == "built-in" or (stated is None and self._measured_causal(plan)):
            can = replace(can, always_causal=True)
        plan = plan.but(abilities=can)
        if not (can.causal or can.always_causal) or not can.rectangular:
            return plan.but(abilities=replace(can, corner=facts.get("corner", "top-left")))
        if "corner" in facts:
            return plan.but(abilities=replace(can, corner=facts["corner"]))
        case = self._case(plan, "plain").but(causal="top-left")
        seen = self._try(plan, "corner", case=case)
        corners: tuple[Corner, ...] = ("top-left", "bottom-right")
        nearest = min(corners, key=lambda corner: distance(seen, case.but(causal=corner)))
        if distance(seen, case.but(causal=nearest)) > _QUICK_TOLERANCE:
            nearest = self._corner_by_influence(plan, case) or nearest
        return plan.but(abilities=replace(can, corner=nearest))

    def _corner_by_influence(self, plan: Plan, case: Case) -> Corner | None:
        """Whether the first query sees the second key tells the corner even when the values are wrong."""
        k, v = case.k.clone(), case.v.clone()
        k[:, :, 2] += 1
        v[:, :, 2] += 1
        before, after = self._ask(plan, Probe("before", case), Probe("after", case.but(k=k, v=v)))
        if before.output is None or after.output is None:
            return None
        moved = (before.output - after.output).abs().amax(dim=(0, 1, 3)) > 1e-6
        if bool(moved.all()) and case.k.shape[-2] - case.q.shape[-2] >= 2:
            return "bottom-right"
        # Also where the triangle is upside down: rows 0 and 1 on one side of key 2, the others on the other.
        return "top-left" if len(set(moved[:2].tolist())) == 1 and bool(moved[0]) != bool(moved[2]) else None

    def _measured_causal(self, plan: Plan) -> bool:
        """Built-in causality that nobody mentions: earlier rows do not move when the last key and value do."""
        case = self._case(plan, "square")
        k, v = case.k.clone(), case.v.clone()
        k[:, :, -1] += 1
        v[:, :, -1] += 1
        changed = case.but(k=k, v=v)
        if plan.abilities.one_source:
            q = case.q.clone()
            q[:, :, -1] += 1
            changed = case.but(q=q, k=q.clone(), v=q.clone())
        before, after = self._ask(plan, Probe("before", case), Probe("after", changed))
        if before.output is None or after.output is None:
            return False
        moved = (before.output - after.output).abs().amax(dim=(0, 1, 3)) > 1e-6
        return self._hears_earlier(plan, case, before) and bool(moved[-1]) and not bool(moved[:-1].any())

    def _hears_earlier(self, plan: Plan, case: Case, before: Observation) -> bool:
        """Later rows move when the first key and value do; else tokens never see each other at all."""
        q, k, v = (t.clone() for t in (case.q, case.k, case.v))
        for tensor in (q, k, v) if plan.abilities.one_source else (k, v):
            tensor[:, :, 0] += 1
        after = self._try(plan, "first", case=case.but(q=q, k=k, v=v))
        if before.output is None or after.output is None:
            return False
        return bool(((before.output - after.output).abs().amax(dim=(0, 1, 3)) > 1e-6)[1:].all())

    def _window(self, plan: Plan) -> Plan:
        can, facts = plan.abilities, self.reading.facts
        if "window" in facts:
            return plan.but(abilities=replace(can, fixed_window=facts["window"]))
        if "window" not in plan.roles.values():
            return plan
        can = replace(can, window=True)
        plan = plan.but(abilities=can, window_counts=self.reading.window_counts or "keys")
        readings = (plan.window_counts,) if self.reading.window_counts else ("keys", "lookback")
        causal = can.corner if can.causal or can.always_causal else None
        for counts in readings:
            for ahead in (False,) if causal else (False, True):
                attempt = plan.but(window_counts=counts, abilities=replace(can, window_ahead=ahead))
                if self._window_error(attempt, ahead, causal) < _QUICK_TOLERANCE:
                    both_ways = can.causal and self._window_error(attempt, True, None) < _QUICK_TOLERANCE
                    return attempt.but(abilities=replace(attempt.abilities, window_ahead_alone=both_ways))
        return plan

    def _window_error(self, plan: Plan, ahead: bool, causal: Corner | None) -> float:
        case = self._case(plan, "square").but(window=3, window_ahead=ahead, causal=causal)
        return distance(self._try(plan, "window", case=case))

    # ---- masks ----

    def _masks(self, plan: Plan) -> list[Plan]:
        names = [n for n, role in plan.roles.items() if role in {"mask", "lengths"}]
        if not names:
            return [plan]
        trials: list[_Trial] = []
        for name in names[:2]:
            for rank, spelling in enumerate(self._spellings(plan, name)):
                for unless_masked in (False, True) if self._may_replace_causal(plan) else (False,):
                    trials.append(self._mask_trial(plan, spelling, rank, unless_masked))
                if trials[-1].error < _QUICK_TOLERANCE:
                    return [trials[-1].plan]
            right = [trial for trial in trials if trial.error < _QUICK_TOLERANCE]
            if right:
                return [right[0].plan]
        # A mask on the wrong axis runs only where the sizes happen to be equal.
        ran = [t for t in trials if t.ran] or [
            t for t in trials if self._try(t.plan, "equal-axes").output is not None
        ]
        if not ran:
            raise self._cannot(
                [(_reason(t.seen, None), t.seen.failure.line if t.seen.failure else None) for t in trials]
            )
        best = min(trial.rank for trial in ran)
        chosen = [
            t
            for t in ran
            if t.plan.mask and t.plan.mask.axes == next(x for x in ran if x.rank == best).plan.mask.axes
        ]  # type: ignore[union-attr]
        return [trial.plan for trial in chosen[:4]]

    def _may_replace_causal(self, plan: Plan) -> bool:
        return plan.abilities.always_causal and "causal" not in self.reading.facts

    def _mask_trial(self, plan: Plan, spelling: MaskSpelling, rank: int, unless_masked: bool) -> _Trial:
        axes = frozenset(axes_of(" ".join(spelling.axes))) - {"1"}
        can = replace(
            plan.abilities,
            mask_axes=frozenset({"B", "T_k"}) if spelling.kind == "lengths" else axes,
            causal_unless_masked=unless_masked,
            bias=spelling.kind == "additive",
        )
        attempt = plan.but(mask=spelling, abilities=replace(can, mask_always=plan.mask_required))
        name = "padding" if spelling.kind == "lengths" or "T_q" not in axes else "masked"
        seen = self._try(attempt, name)
        return _Trial(attempt, seen, distance(seen), rank)

    def _spellings(self, plan: Plan, name: str) -> list[MaskSpelling]:
        if plan.roles.get(name) == "lengths":
            return [MaskSpelling(name, "lengths", "int", ("B",))]
        stated_axes = self.reading.mask_axes
        kinds = [self.reading.mask_kind] if self.reading.mask_kind else ["allowed", "blocked", "additive"]
        found: list[MaskSpelling] = []
        for axes in [stated_axes] if stated_axes else _mask_shapes(plan, name):
            for kind in kinds:
                stated = tuple(v for v in self.reading.mask_values if kind != "additive")
                for values in ("float",) if kind == "additive" else stated or ("bool", "int", "float"):
                    found.append(MaskSpelling(name, kind, values, axes))
        # The plain boolean of every shape first, then the rarer spellings.
        order = {"allowed": 0, "blocked": 1, "additive": 2}
        return sorted(found, key=lambda s: (s.values != "bool" and s.kind != "additive", order[s.kind]))

    # ---- the contract in words ----

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
        return plan.but(abilities=can, contract=contract)

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


_POSITIONAL = {"positional", "positional-only", "keyword-only"}


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
        "weights",
    ):
        value = getattr(declared, name)
        if value is not None:
            facts[name] = value
    axes = tuple(declared.mask_shape.split()) if declared.mask_shape else reading.mask_axes
    kind = reading.mask_kind if declared.mask in {None, "none"} else declared.mask
    return replace(
        reading,
        facts=facts,
        layouts=(declared.layout,) if declared.layout else reading.layouts,
        mask_kind=kind,
        mask_axes=axes,
    )


def _mask_shapes(plan: Plan, name: str) -> list[tuple[str, ...]]:
    """Shapes of a mask in the order of likelihood for this layout and this name."""
    axes = axes_of(plan.layout)
    full = {
        "B H T d": [("B", "1", "T_q", "T_k"), ("B", "T_q", "T_k"), ("T_q", "T_k"), ("B", "H", "T_q", "T_k")],
        "B T d": [("B", "T_q", "T_k"), ("T_q", "T_k")],
        "T d": [("T_q", "T_k")],
        "H T d": [("T_q", "T_k"), ("1", "T_q", "T_k")],
    }
    if "(B H)" in plan.layout:
        chosen = [("(B H)", "T_q", "T_k"), ("B", "T_q", "T_k"), ("T_q", "T_k")]
    elif "B" in axes and "H" in axes:
        chosen = full["B H T d"]
    elif "B" in axes:
        chosen = full["B T d"]
    else:
        chosen = full["H T d" if "H" in axes else "T d"]
    keys = [("B", "T_k"), ("B", "1", "1", "T_k"), ("B", "1", "T_k")] if "B" in axes else [("T_k",)]
    return [*keys, *chosen] if re.search(r"pad|key|valid|memory|src", name.lower()) else [*chosen, *keys]


def _flip_last(layout: str) -> str | None:
    """ "B H T d" -> "B H d T": keys handed over transposed."""
    axes = layout.split()
    return " ".join([*axes[:-2], "d", "T"]) if axes[-2:] == ["T", "d"] else None


def _other_layouts(layout: str) -> tuple[str, ...]:
    """Layouts in which the output may come back instead: heads last, or folded."""
    return {
        "B H T d": ("B T H d", "B T (H d)"),
        "B T H d": ("B H T d", "B T (H d)"),
        "H T d": ("T H d", "T (H d)"),
    }.get(layout, ())


def _is_output(plan: Plan, probe: Probe, leaf: Tensor) -> bool:
    sizes = {**sizes_of(probe.case), "T": probe.case.q.shape[-2], "d": probe.case.v.shape[-1]}
    return leaf.is_floating_point() and restore(leaf, plan.output_layout or plan.layout, sizes) is not None


def _reason(seen: Observation, result: Any) -> str:
    if seen.failure is not None:
        where = f" (line {seen.failure.line})" if seen.failure.line else ""
        return f"{seen.failure.kind}: {seen.failure.message.splitlines()[0][:160] if seen.failure.message else ''}{where}"
    shapes = [tuple(leaf.shape) for leaf in leaves(result)]
    return f"a result of shape {shapes}" if shapes else f"a result without tensors ({type(result).__name__})"
