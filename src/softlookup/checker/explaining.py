"""Explain a target's forward values: find the simplest hypothesis that predicts the answer to every probe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from softlookup import catalog
from softlookup.checker.abilities import Probe
from softlookup.checker.caching import ask_with_a_cache
from softlookup.checker.calls import Target
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
from softlookup.checker.other_paths import ask_other_paths
from softlookup.checker.plan import Plan, ask
from softlookup.checker.probes import suite
from softlookup.checker.sieve import Sieve


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

    @cached_property
    def sieve(self) -> Sieve | None:
        """The first observation that is exact enough to reject by; None when there is none."""
        clear = (s for s in self.failing if s.probe not in STRAINED and s.case.q.dtype.itemsize >= 4)
        first = next(clear, None)
        return None if first is None else Sieve(first, self.scale.exact(first.case))

    def fitting(self, hypotheses: Iterable[Hypothesis]) -> list[Hypothesis]:
        """Return the hypotheses that predict everything, best first."""
        names = {seen.probe for seen in self.failing}
        found = [
            (error, h)
            for h in hypotheses
            if (self.sieve is None or self.sieve.lets_through(h))
            and (error := explains(self.scale, self.ordered, h, names)) is not None
        ]
        return [h for _, h in sorted(found, key=lambda pair: pair[0])]


def look_at(target: Target, plan: Plan) -> Look:
    """Put every probe to the target and compare with the reference."""
    probes = suite(plan.abilities, getattr(torch, plan.contract.dtype or "float32"))
    observations = ask(target, plan, probes) + ask_other_paths(target, plan, probes)
    if target.sketch.has_weights:  # for rules that judge by what was done, such as a rotation without effect
        plain = [replace(probe, name="recorded", compared=False) for probe in probes if probe.name == "plain"]
        observations += ask(target, plan, plain, record=True)
    evidence = Evidence(plan.contract, tuple(observations), sketch=target.sketch)
    usable = [seen for seen in observations if seen.compared and seen.output is not None]
    scale = Scale()
    failing = [seen for seen in usable if not scale.compare(seen, REFERENCE).fits]
    modest = _only_a_modest_fill(plan, evidence, failing, scale)
    failing = [] if modest else failing
    if not failing:
        plan, cached = ask_with_a_cache(target, plan)
        evidence = replace(evidence, observations=(*evidence.observations, *cached))
        usable += cached
        failing = [seen for seen in cached if not scale.compare(seen, REFERENCE).fits]
    names = {seen.probe for seen in failing}
    ordered = failing + [seen for seen in usable if seen.probe not in names]
    return Look(plan, evidence, tuple(ordered), tuple(failing), scale, modest)


def explain_forward(target: Target, looks: list[Look], words: str) -> Explanation:
    """Find the simplest hypothesis under any plan: none, a known variant, one rule, then two of them."""
    for look in looks:
        if not look.failing:
            return Explanation(look.plan, look.evidence, REFERENCE, (), modest_fill=look.modest_fill)
    source = target.sketch.source or words
    variants: list[list[Hypothesis]] = []
    rules: list[list[Hypothesis]] = []

    def asked() -> Iterator[
        tuple[Look, list[Hypothesis]]
    ]:  # each is built, and measures, when its turn comes
        for look in looks:
            variants.append(known_variants(look.evidence, words, source))
            yield look, variants[-1]
        for look in looks:
            rules.append(singles(look.evidence))
            yield look, rules[-1]
        for look in looks:
            yield look, known_variants(look.evidence, words, source, last=True)

    for look, hypotheses in asked():
        if matches := look.fitting(hypotheses):
            return _explained(target, look, matches)
    if any(_blamed(look.evidence, "every output") for look in looks[:1]):
        return Explanation(looks[0].plan, looks[0].evidence, None, looks[0].failing)
    for look in _in_one_length(target, looks):
        if matches := look.fitting(singles(look.evidence)):
            return _explained(target, look, matches)
    for look, known in zip(looks, variants, strict=True):  # few, so they are asked under every plan
        if matches := look.fitting(pairs(known, known)):
            return _explained(target, look, matches)
    # Two at once: only under the likeliest plans, and only what changes anything there.
    for place in sorted(range(len(looks)), key=lambda n: len(looks[n].failing))[:2]:
        look = looks[place]
        failing = {seen.probe for seen in look.failing}
        single = effective(rules[place], look.scale, look.ordered, failing)
        # With a variant all rules count: what it assumes (a bias, a window) may be what they get wrong.
        for several in (
            pairs(variants[place], rules[place]),
            pairs(single, single),
            _beside_visibility(variants[place], rules[place], single),
        ):
            if matches := look.fitting(several):
                return _explained(target, look, matches)
    # What is wrong under one reading of a mask only is that reading's fault.
    least = min(looks, key=lambda look: (_blamed(look.evidence), len(look.failing)))
    if _right_in_float32(target, least.plan):
        return Explanation(least.plan, least.evidence, REFERENCE, least.failing, imprecise=True)
    return Explanation(least.plan, least.evidence, None, least.failing)


def _in_one_length(target: Target, looks: list[Look]) -> Iterator[Look]:
    """Look again with as many source tokens as target tokens.

    Values taken from the target have another length than the keys: some kernels raise, some answer anything.
    """
    for look in looks:
        can = look.plan.abilities
        if can.rectangular and can.wiring is not None and can.wiring.source != "self":
            yield look_at(target, look.plan.but(abilities=replace(can, rectangular=False)))


def _beside_visibility(
    known: list[Hypothesis], rules: list[Hypothesis], single: list[Hypothesis]
) -> Iterator[Hypothesis]:
    """Positions, a rule of visibility, and one other step: the only three that are tried at once."""
    positions = [h for h in known if {"score", "assume"} & h.edits.keys()]
    visibility = [h for h in rules if h.edits.keys() == {"visible"}]
    others = [h for h in single if "visible" not in h.edits]
    return pairs(list(pairs(positions, visibility)), others)


def _blamed(evidence: Evidence, *reasons: str) -> bool:
    """Say whether a rule that needs no explanation finds something wrong: then no two steps explain it."""
    modules = [entry.load() for entry in catalog.rules()]
    explaining = [m for m in modules if hasattr(m, "EXPLAINS") and (not reasons or m.EXPLAINS in reasons)]
    return any(found is not None and found.wrong for found in (m.judge(evidence) for m in explaining))


def _explained(target: Target, look: Look, matches: list[Hypothesis]) -> Explanation:
    matches = [h for h in matches if _answers_nothing_where_seen(h, look)] or matches
    chosen = _decide(target, look.plan, matches, look.failing[0])
    others = {entry.name for match in matches for entry in match.rules} - {e.name for e in chosen.rules}
    known = replace(look.evidence, steps=chosen.steps)
    return Explanation(look.plan, known, chosen, look.failing, tuple(sorted(others)))


def _answers_nothing_where_seen(hypothesis: Hypothesis, look: Look) -> bool:
    """Say whether padding that answers zeros may look nowhere here too; these rows are not compared."""
    for seen in look.failing:
        if seen.cleared is not None:
            predicted = hypothesis.steps(seen.case.double())[0]
            rows = predicted[seen.cleared.expand(predicted.shape[:-1])]
            if bool((rows.isfinite() & (rows != 0)).any()):
                return False
    return True


def _right_in_float32(target: Target, plan: Plan) -> bool:
    """Meaning is judged in float32: what differs only in half precision is a matter of rounding."""
    if plan.contract.dtype in {None, "float32", "float64"}:
        return False
    return not look_at(target, plan.but(contract=replace(plan.contract, dtype="float32"))).failing


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
    """Ask the same question again, in the same way, and note every torch call."""
    probe = seen.asked or Probe(seen.probe, seen.case)
    again = ask(target, plan, [replace(probe, backward=False)], record=True)
    return again[0] if again else seen
