"""Explain a target's forward values: find the simplest hypothesis that predicts the answer to every probe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from softlookup import catalog
from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Target
from softlookup.checker.cases import CaseBuilder
from softlookup.checker.evidence import Evidence, Observation
from softlookup.checker.hypotheses import (
    REFERENCE,
    STRAINED,
    Hypothesis,
    Scale,
    effective,
    explains,
    hypotheses_of,
    known_variants,
    pairs,
    singles,
)
from softlookup.checker.plan import Plan, ask, setting_switches
from softlookup.checker.probes import suite


@dataclass(frozen=True)
class Explanation:
    """How the forward values of one target under one plan came about."""

    plan: Plan
    evidence: Evidence
    hypothesis: Hypothesis | None  # None: nothing explains them
    failing: tuple[Observation, ...]  # observations that the reference does not predict
    alternatives: tuple[str, ...] = ()
    imprecise: bool = False  # right in float32, and in half precision beyond any rounding of the steps
    modest_fill: bool = False  # hidden keys win where scores are enormous


@dataclass(frozen=True)
class Look:
    """What was seen of the target under one plan, and where the reference does not predict it."""

    plan: Plan
    evidence: Evidence
    ordered: tuple[Observation, ...]  # compared observations, those that the reference misses first
    failing: tuple[Observation, ...]
    scale: Scale
    modest_fill: bool = False

    def fitting(self, hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses that predict everything, best first."""
        names = {seen.probe for seen in self.failing}
        found = [
            (error, h)
            for h in hypotheses
            if (error := explains(self.scale, self.ordered, h, names)) is not None
        ]
        return [h for _, h in sorted(found, key=lambda pair: pair[0])]


def look_at(target: Target, plan: Plan) -> Look:
    """Put every probe to the target and compare with the reference."""
    probes = suite(plan.abilities, getattr(torch, plan.contract.dtype or "float32"))
    observations = ask(target, plan, probes) + _other_paths(target, plan, probes)
    if target.sketch.has_weights:  # for rules that judge by what was done, such as a rotation without effect
        plain = [replace(probe, name="recorded", compared=False) for probe in probes if probe.name == "plain"]
        observations += ask(target, plan, plain, record=True)
    evidence = Evidence(plan.contract, tuple(observations), sketch=target.sketch)
    usable = [seen for seen in observations if seen.compared and seen.output is not None]
    scale = Scale()
    failing = [seen for seen in usable if not scale.compare(seen, REFERENCE).fits]
    modest = _only_a_modest_fill(plan, evidence, failing, scale)
    failing = [] if modest else failing
    names = {seen.probe for seen in failing}
    ordered = failing + [seen for seen in usable if seen.probe not in names]
    return Look(plan, evidence, tuple(ordered), tuple(failing), scale, modest)


def explain_forward(target: Target, looks: list[Look], words: str) -> Explanation:
    """Find the simplest hypothesis under any plan: none, a known variant, one rule, then two of them."""
    for look in looks:
        if not look.failing:
            return Explanation(look.plan, look.evidence, REFERENCE, (), modest_fill=look.modest_fill)
    source = target.sketch.source or words
    variants = [known_variants(look.evidence, words, source) for look in looks]
    rules: list[list[Hypothesis]] = []

    def asked() -> Iterator[
        tuple[Look, list[Hypothesis]]
    ]:  # each is built, and measures, when its turn comes
        yield from zip(looks, variants, strict=True)
        for look in looks:
            rules.append(singles(look.evidence))
            yield look, rules[-1]
        for look in looks:
            yield look, known_variants(look.evidence, words, source, last=True)

    for look, hypotheses in asked():
        if matches := look.fitting(hypotheses):
            return _explained(target, look, matches)
    if any(_moved_by_others(look.evidence) for look in looks[:1]):
        return Explanation(looks[0].plan, looks[0].evidence, None, looks[0].failing)
    # Two at once: only under the likeliest plans, and only what changes anything there.
    for place in sorted(range(len(looks)), key=lambda n: len(looks[n].failing))[:2]:
        look = looks[place]
        failing = {seen.probe for seen in look.failing}
        single = effective(rules[place], look.scale, look.ordered, failing)
        # With a variant all rules count: what it assumes (a bias, a window) may be what they get wrong.
        two = (
            pairs(variants[place], variants[place]),
            pairs(variants[place], rules[place]),
            pairs(single, single),
        )
        for both in two:
            if matches := look.fitting(both):
                return _explained(target, look, matches)
    least = min(looks, key=lambda look: len(look.failing))
    if _right_in_float32(target, least.plan):
        return Explanation(least.plan, least.evidence, REFERENCE, least.failing, imprecise=True)
    return Explanation(least.plan, least.evidence, None, least.failing)


def _moved_by_others(evidence: Evidence) -> bool:
    """Say whether outputs are random or depend on other samples: then no two steps explain them."""
    modules = [entry.load() for entry in catalog.rules()]
    judges = [m.judge for m in modules if getattr(m, "EXPLAINS", "") == "every output"]
    return any(found is not None and found.wrong for found in (judge(evidence) for judge in judges))


def _explained(target: Target, look: Look, matches: list[Hypothesis]) -> Explanation:
    chosen = _decide(target, look.plan, matches, look.failing[0])
    others = {entry.name for match in matches for entry in match.rules} - {e.name for e in chosen.rules}
    known = replace(look.evidence, steps=chosen.steps)
    return Explanation(look.plan, known, chosen, look.failing, tuple(sorted(others)))


def _right_in_float32(target: Target, plan: Plan) -> bool:
    """Meaning is judged in float32: what differs only in half precision is a matter of rounding."""
    if plan.contract.dtype in {None, "float32", "float64"}:
        return False
    return not look_at(target, plan.but(contract=replace(plan.contract, dtype="float32"))).failing


def _other_paths(target: Target, plan: Plan, probes: Sequence[Probe]) -> list[Observation]:
    """Ask the same through every optional switch that picks another path and promises the same answer."""
    asked = [
        (kind, probe) for kind in ("plain", "masked", "causal") for probe in probes if probe.name == kind
    ]
    seen: list[Observation] = []
    for label, path in [
        ("default", plan),
        *((name, plan.but(flags={**plan.flags, name: value})) for name, value in plan.switches()),
    ]:
        renamed = [replace(probe, name=f"path-{kind}-{label}", compared=False) for kind, probe in asked]
        seen += ask(target, path, renamed)
    for path_of_switch, value in setting_switches(target.sketch):
        name = path_of_switch.rpartition(".")[2]
        switched = [
            replace(p, name=f"path-{kind}-{name}", settings=((path_of_switch, value),), compared=False)
            for kind, p in asked
        ]
        seen += ask(target, plan, switched)
    seen += _training_path(target, plan, asked)
    free = next((probe for kind, probe in asked if kind == "plain" and probe.case.allowed_mask is None), None)
    if free is not None and plan.mask is not None and not plan.abilities.always_causal:
        case = free.case.but(allowed_mask=CaseBuilder(plan.abilities, free.case.q.dtype).full_mask(free.case))
        seen += ask(target, plan, [Probe("path-plain-with a mask that hides nothing", case, compared=False)])
    return seen if len(seen) > len(asked) else []


def _training_path(target: Target, plan: Plan, asked: Sequence[tuple[str, Probe]]) -> list[Observation]:
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


def _only_a_modest_fill(plan: Plan, evidence: Evidence, failing: list[Observation], scale: Scale) -> bool:
    """Say whether hidden keys are merely filled by a number that was chosen for smaller scores than these."""
    if not failing or not {seen.probe for seen in failing} <= STRAINED or plan.contract.max_score is not None:
        return False
    reached = replace(evidence, contract=replace(plan.contract, max_score=plan.abilities.max_score))
    names = {seen.probe for seen in failing}
    rule = catalog.find_rule("SL110")
    deliberate = [h for h in hypotheses_of(rule, reached) if h.variant[0] <= rule.load().DELIBERATE]
    return any(explains(scale, failing, hypothesis, names) is not None for hypothesis in deliberate)


def _decide(target: Target, plan: Plan, matches: list[Hypothesis], seen: Observation) -> Hypothesis:
    """Let the recorded calls decide between rules that predict the same; else the first in the catalogue."""
    by_rule = {h.entries: h for h in reversed(matches)}
    if len(by_rule) == 1:
        return matches[0]
    recorded = record(target, plan, seen)
    ordered = sorted(by_rule.values(), key=lambda h: [e.code for e in h.entries])
    for hypothesis in ordered:
        tests = [getattr(entry.load(), "recorded", None) for entry in hypothesis.rules]
        if any(tests) and all(test(recorded.recorded) for test in tests if test):
            return hypothesis
    silent = [h for h in ordered if not any(hasattr(e.load(), "recorded") for e in h.rules)]
    return (silent or ordered)[0]


def record(target: Target, plan: Plan, seen: Observation) -> Observation:
    """Ask the same question again and note every torch call."""
    probe = Probe(seen.probe, seen.case, integer_mask=seen.probe == "integer-mask")
    again = ask(target, plan, [probe], record=True)
    return again[0] if again else seen
