"""Find out how a module with projections is called, and which of its weights are which projection."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from softlookup.checker.abilities import Abilities, Probe
from softlookup.checker.docstrings import documentation, notes_by_parameter, shapes_in
from softlookup.checker.find_layout import LayoutFinder
from softlookup.checker.find_tables import TableFinder
from softlookup.checker.find_wiring import guess_wirings
from softlookup.checker.layer_plan import LayerPlan
from softlookup.checker.layouts import axes_of
from softlookup.checker.plan import Plan
from softlookup.checker.trying import CannotAdaptError, Trial, cannot_adapt
from softlookup.checker.weight_names import dropout_of, longest_of
from softlookup.checker.wiring import Source, Wiring

#: Roles of the parameters, and how many inputs there are.
Inputs = tuple[dict[str, str], Source]

#: Trials in one go: the likeliest guesses mostly settle it.
_FIRST = 24
#: How many guesses are examined when none gives plain attention.
_KEPT = 3

#: What the width of a model is called in words about its input.
_WIDTH = re.compile(
    r"\b((d|dim|n)_(model|embd?|embed)|(model|embed(ding)?|emb|hidden|input|in|e)_(dim|size|features)|num_units)\b"
)

#: Second inputs that may as well be the one that asks: forward(source, target).
_EITHER = {"y", "x2", "other"}

_IMAGE, _CHANNELS_FIRST = "B d Y X", "B d T"
#: [B, 1, T, d]: an image of one row with its channels last, or one patch of a batch of patches.
_ONE_ROW = "B 1 T d"


class LayerFinder(LayoutFinder):
    """Finds the roles of the arguments, the layout, and the projections."""

    def layers(self) -> list[Plan]:
        """Return the plan under which the module is plain attention, else the likeliest few.

        Raises: CannotAdaptError when it cannot be called, or its projections are nowhere to be found.
        """
        try:
            return self._layers(self._role_and_source())
        except CannotAdaptError as alone:
            if not self.reading.without:
                raise
            try:
                return self._layers(self._given_twice())
            except CannotAdaptError:
                raise alone from None

    def _layers(self, inputs: Iterable[Inputs]) -> list[Plan]:
        """Return the best plans with these inputs."""
        guesses = self._layer_guesses(inputs)
        if not guesses:
            raise self._no_projections()
        ran: list[Trial] = []
        failures: list[tuple[str, int | None]] = []
        for before, some in ((0, guesses[:_FIRST]), (_FIRST, guesses[_FIRST:])):
            trials, failed = self._tried(some)
            if trials and not any(_has_numbers(trial) for trial in trials):
                trials = self._tried([_with_dense_tokens(trial.plan) for trial in trials])[0]
            ran += [replace(trial, rank=before + trial.rank) for trial in trials]
            failures += failed
            right = [trial for trial in ran if trial.error <= self.tolerance]
            if right:
                best = min(right, key=_generality)
                more = [trial for trial in ran if _inputs(trial) > _inputs(best)]
                # Right only while all inputs are one: with inputs of their own it says what is wrong.
                return self._likeliest(more) if more else [best.plan]
        if not ran:
            raise cannot_adapt(self, failures)
        return self._likeliest(ran)

    def _layer_guesses(self, inputs: Iterable[Inputs]) -> list[Plan]:
        """Every way of calling with every wiring, likely ones first."""
        plans: list[Plan] = []
        answering = {n for n, role in self.reading.roles.items() if role in {"memory", "k", "v"}}
        stated = bool(answering - _EITHER)
        layouts, dropout, longest = self._token_layouts(), dropout_of(self.sketch), longest_of(self.sketch)
        for roles, source in inputs:
            for guess in guess_wirings(self.sketch, source):
                wiring = guess.but(asker_stated=stated or source == "self")
                can = Abilities(
                    grouped=wiring.num_kv_heads != wiring.num_heads,
                    wiring=wiring,
                    dropout=dropout,
                    gradients=self.sketch.differentiable,
                    longest=longest,
                )
                for layout in layouts:
                    plans += self._plans_of(roles, can, layout)
        return TableFinder(self.target, self.reading, self.declared).with_tables(plans)

    def _plans_of(self, roles: dict[str, str], can: Abilities, layout: str) -> Iterator[Plan]:
        alone = can.wiring is not None and can.wiring.source == "self"
        for rectangular in (False,) if alone else (True, False):
            plan = LayerPlan(
                self.parameters,
                roles,
                layout=layout,
                abilities=replace(
                    can, batch="B" in axes_of(layout), rectangular=rectangular, grid=layout == _IMAGE
                ),
                weights=self.sketch.weights,
            )
            yield from self._with_required_masks(plan)

    def _given_twice(self) -> Iterator[Inputs]:
        """Yield the target as its own memory, which may be left out only in name: forward(x, x)."""
        for roles, source in self._role_and_source():
            if source == "self":
                yield {**roles, self.reading.without: "x"}, source

    def _role_and_source(self) -> Iterator[Inputs]:
        """Yield what may be given, likely inputs first."""
        roles = dict(self.reading.roles)
        known = {role: name for name, role in roles.items()}
        required = [p.name for p in self.parameters if p.required and p.kind.startswith("positional")]
        if {"q", "k", "v"} <= set(known):
            yield roles, "three"
            yield roles, "self"
            return
        if "q" in known and {"k", "v"} & set(known):  # one of them stands for both
            name = known.get("k") or known["v"]
            yield {**roles, name: "memory"}, "cross"
            return
        first = known.get("x") or known.get("q") or next((n for n in required if n not in roles), None)
        if first is None and "memory" in known and known["memory"] in required[:1]:
            first = known.pop("memory")  # forward(src): the only input
        if first is None:
            return
        strange = [name for name in required if name not in roles and name != first]
        if len(strange) == 1 and not {"memory", "k", "v"} & set(known):  # forward(x, c)
            roles[strange[0]], known["memory"] = "memory", strange[0]
        others = {name: role for name, role in roles.items() if name != first and role not in {"x", "q"}}
        without = {name: role for name, role in others.items() if role != "memory"}
        both: Inputs = ({first: "x", **others}, "cross")
        alone: Inputs = ({first: "x", **without}, "self")
        if "memory" not in known:
            yield alone
        else:
            yield both
            if known["memory"] in strange or known["memory"] in _EITHER:
                # Nothing says which of the two asks: forward(source, target).
                yield {**others, first: "memory", known["memory"]: "x"}, "cross"
            if known["memory"] in required:
                yield alone

    def _token_layouts(self) -> tuple[str, ...]:
        """Layouts of the inputs in the order of likelihood."""
        owners = set(self.sketch.parts.values())
        if "Conv2d" in owners:
            return (_IMAGE,)
        if "Conv1d" in owners:
            return (_CHANNELS_FIRST, "B T d")
        batch_first = next(
            (v for path, v in self.sketch.settings.items() if path.rpartition(".")[2] == "batch_first"), None
        )
        stated = [layout for layout in self.reading.layouts if not {"H", "G"} & set(axes_of(layout))]
        told = tuple(sorted(stated, key=lambda layout: "B" not in layout)[:1]) or self._told_layouts()
        own = "batch_first" in self.sketch.settings  # that of a part is no promise of the whole
        if batch_first is not None and (own or len(told) != 1 or "B" not in told[0]):
            return ("B T d",) if batch_first else ("T B d",)
        if told:
            return told
        return ("B T d", "T B d", "T d", _CHANNELS_FIRST, _IMAGE, _ONE_ROW)

    def _told_layouts(self) -> tuple[str, ...]:
        """Layouts in which the words give an input, with the width of the model as its last word."""
        notes = notes_by_parameter(documentation(self.sketch), self.parameters)
        inputs = {name for name, role in self.reading.roles.items() if role in {"x", "q", "memory"}}
        shapes = (shape for name in inputs for shape in shapes_in(_WIDTH.sub("d", notes.get(name, ""))))
        return tuple(dict.fromkeys(" ".join(shape) for shape in shapes if sorted(shape) == ["B", "T", "d"]))

    def _likeliest(self, ran: list[Trial]) -> list[Plan]:
        """One plan for each wiring, likely ones first, called as the first one is, or the other way round."""
        most: dict[tuple[str, ...], int] = {}  # inputs that differ: all of them one shows least
        for trial in ran:
            roles = tuple(trial.plan.roles.values())
            most[roles] = max(most.get(roles, 0), _inputs(trial))
        ran = [trial for trial in ran if _inputs(trial) == most[tuple(trial.plan.roles.values())]]
        ran = sorted(ran, key=_likelihood)
        first = ran[0].plan
        found: dict[tuple[str, ...], dict[Wiring | None, Plan]] = {}
        for trial in ran:
            plan = trial.plan
            wiring = plan.abilities.wiring
            same_roles = plan.roles == first.roles or not (wiring and wiring.asker_stated)
            same_call = (plan.layout, plan.mask) == (first.layout, first.mask) and same_roles
            if same_call and plan.abilities.rectangular == first.abilities.rectangular:
                found.setdefault(tuple(plan.roles.values()), {}).setdefault(wiring, plan)
        kept = [plan for group in found.values() for plan in list(group.values())[:_KEPT]]
        return [self._with_residual(plan) for plan in kept]

    def _with_residual(self, plan: Plan) -> Plan:
        """Say whether the input comes back with the output: with weights of 0 nothing else is left."""
        case = self.case(plan, "plain")
        wiring = plan.abilities.wiring
        projects = wiring is not None and bool(wiring.out)
        silent = Probe("silent", case if projects else case.but(v=case.v * 0), out="zero" if projects else "")
        for reading in plan.readings():
            seen = self.ask(reading, silent)[0]
            if seen.output is not None and float(seen.output.abs().max()) < self.tolerance:
                return reading
        return plan

    def _no_projections(self) -> CannotAdaptError:
        weights = ", ".join(f"{w.name} {list(w.shape)}" for w in self.sketch.weights if w.trained)
        names = ", ".join(p.name for p in self.parameters)
        return CannotAdaptError(
            f"{self.sketch.name}: its projections of queries, keys and values were not found.",
            expected="weights whose names or order say what they project, e.g. q_proj, k_proj, v_proj, "
            "and an input such as x, (query, key, value) or (x, context)",
            got=f"weights {weights[:400]}; forward({names})",
            hint="wrap it in a module whose forward takes x and whose projections have such names",
        )


def _has_numbers(trial: Trial) -> bool:
    return trial.seen.output is not None and bool(trial.seen.output.isfinite().any())


def _with_dense_tokens(plan: Plan) -> Plan:
    """Return the plan without zeros in its tokens: a norm over other axes than the features is 0 there."""
    can = plan.abilities
    assert can.wiring is not None
    return plan.but(abilities=replace(can, wiring=can.wiring.but(dense=True)))


def _inputs(trial: Trial) -> int:
    """How many inputs of its own a guess gives."""
    wiring = trial.plan.abilities.wiring
    return 0 if wiring is None else ("self", "cross", "three").index(wiring.source)


def _likelihood(trial: Trial) -> tuple[bool, bool, int]:
    can = trial.plan.abilities
    projects_out = can.wiring is not None and bool(can.wiring.out)  # what is there for it mostly does
    # Where no name says which input asks, the wrong one of them runs only with as many tokens in both.
    in_doubt = can.wiring is not None and not can.wiring.asker_stated and not can.rectangular
    return not projects_out, in_doubt, trial.rank


def _generality(trial: Trial) -> tuple[bool, int]:
    return not trial.plan.abilities.rectangular, trial.rank
