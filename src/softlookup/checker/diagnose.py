"""Name the bug: the hypothesis whose wrong answers match the target's wrong answers.

No bug first, then each rule, then pairs. What nothing explains is reported as SL000 with the smallest input that
shows it, never guessed at. What is no wrong forward value (gradients, precision, conduct) is judged by the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch

from softlookup import catalog
from softlookup.catalog import Entry
from softlookup.checker.adapt import Adapter, CannotAdaptError
from softlookup.checker.calls import Target
from softlookup.checker.evidence import Evidence, Judgement, Observation
from softlookup.checker.exhibit import smallest
from softlookup.checker.hypotheses import (
    REFERENCE,
    STRAINED,
    Hypothesis,
    Scale,
    explains,
    hypotheses_of,
    known_variants,
    pairs,
    singles,
)
from softlookup.checker.locate import line_of
from softlookup.checker.plan import Plan, ask
from softlookup.checker.probes import Probe, suite
from softlookup.checker.target import LocalTarget
from softlookup.terms import Contract, Diagnosis, Finding, Verdict

#: Rules that compare with the explained forward pass and have nothing to say where there is none.
_NEED_FORWARD = {"SL702", "SL805", "SL704", "SL403"}
#: Rules that say nothing of their own once a wrong forward value has a name: it is what moves them.
_FOLLOW = {"SL401", "SL402", "SL404", "SL702", "SL705", "SL801", "SL905"}


def check(implementation: Callable[..., Any], contract: Contract | None = None) -> Diagnosis:
    """Check an attention function, or a module without weights, in this process.

    implementation: any callable that takes queries, keys and values (and perhaps a mask, a causal flag, a scale ...);
        how it is called is found out by trying
    contract: what it promises where its names and docstrings do not say so

    Returns: the inferred contract, findings with lines, and notes. The callable and its tensors are left as they are.

    Raises: SoftlookupError when the implementation is not callable.

    >>> import softlookup, torch
    >>> def attend(q, k, v):
    ...     return (q @ k.transpose(-2, -1)).softmax(-1) @ v
    >>> softlookup.check(attend).named()
    ['scale-missing']
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny: more threads only wait for each other
    try:
        return examine(LocalTarget(implementation), declared(contract))
    finally:
        torch.set_num_threads(threads)


def declared(contract: Contract | None) -> Contract:
    """Mark every field that is set as declared."""
    if contract is None:
        return Contract()
    names = {n for n in contract.__dataclass_fields__ if n != "declared" and getattr(contract, n) is not None}
    return replace(contract, declared=frozenset(names) | contract.declared)


@dataclass(frozen=True)
class Explanation:
    """How the forward values of one target under one plan came about."""

    plan: Plan
    evidence: Evidence
    hypothesis: Hypothesis | None  # None: nothing explains them
    failing: tuple[Observation, ...]  # observations that the reference does not predict
    alternatives: tuple[str, ...] = ()
    imprecise: bool = False  # right in float32, and in half precision beyond any rounding that the steps explain
    modest_fill: bool = False  # hidden keys win where scores are enormous


def examine(target: Target, contract: Contract) -> Diagnosis:
    """Examine one target under what is declared about it."""
    adapter = Adapter(target, contract)
    stated = adapter.reading.layouts
    found = [_examine_in(target, adapter.in_layout(layout)) for layout in (stated if len(stated) > 1 else (None,))]
    return next((diagnosis for diagnosis in found if not diagnosis.clean), found[0])


def _examine_in(target: Target, adapter: Adapter) -> Diagnosis:
    """Examine a target in one of the layouts that it promises."""
    sketch = target.sketch
    try:
        plans = adapter.plans()
    except CannotAdaptError as problem:
        return not_callable(target, adapter.declared, str(problem), problem.line)
    best = _explain(target, [_look(target, plan) for plan in plans], adapter.reading.words)
    findings, notes = _Report(target, best).write()
    verdict: Verdict = "clean"
    if findings:
        verdict = "unrecognised" if any(f.code == "SL000" for f in findings) else "named"
    contract = _measured(best)
    kind = "function" if sketch.kind == "function" else "module"
    return Diagnosis(sketch.name, kind, sketch.file, sketch.line, contract, verdict, tuple(findings), tuple(notes))  # type: ignore[arg-type]


def not_callable(target: Target, contract: Contract, reason: str, line: int | None = None) -> Diagnosis:
    """Report a target that could not be run: SL001 with the reason."""
    sketch = target.sketch
    finding = Finding("SL001", "not-callable", reason, line=line or sketch.line, fix=reason.rpartition("try:")[2].strip())
    return Diagnosis(sketch.name, "function", sketch.file, sketch.line, contract, "not-callable", (finding,))


@dataclass(frozen=True)
class _Look:
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
        found = [(error, h) for h in hypotheses if (error := explains(self.scale, self.ordered, h, names)) is not None]
        return [h for _, h in sorted(found, key=lambda pair: pair[0])]


def _look(target: Target, plan: Plan) -> _Look:
    """Put every probe to the target and compare with the reference."""
    probes = suite(plan.abilities, getattr(torch, plan.contract.dtype or "float32"))
    observations = ask(target, plan, probes) + _other_paths(target, plan, probes)
    evidence = Evidence(plan.contract, tuple(observations))
    usable = [seen for seen in observations if seen.compared and seen.output is not None]
    scale = Scale()
    failing = [seen for seen in usable if not scale.compare(seen, REFERENCE).fits]
    modest = _only_a_modest_fill(plan, evidence, failing, scale)
    failing = [] if modest else failing
    names = {seen.probe for seen in failing}
    ordered = failing + [seen for seen in usable if seen.probe not in names]
    return _Look(plan, evidence, tuple(ordered), tuple(failing), scale, modest)


def _explain(target: Target, looks: list[_Look], words: str) -> Explanation:
    """Find the simplest hypothesis under any plan: none, a known variant, one rule, a variant and a rule, two rules."""
    for look in looks:
        if not look.failing:
            return Explanation(look.plan, look.evidence, REFERENCE, (), modest_fill=look.modest_fill)
    variants = {id(look): known_variants(look.evidence, words, target.sketch.source or words) for look in looks}
    rules = {id(look): singles(look.evidence) for look in looks}
    stages: list[Callable[[_Look], Iterable[Hypothesis]]] = [
        lambda look: variants[id(look)],
        lambda look: rules[id(look)],
        lambda look: known_variants(look.evidence, words, target.sketch.source or words, last=True),
        lambda look: pairs(variants[id(look)], rules[id(look)]),
        lambda look: pairs(rules[id(look)], rules[id(look)]),
    ]
    for stage in stages:
        for look in looks:
            matches = look.fitting(stage(look))
            if matches:
                chosen = _decide(target, look.plan, matches, look.failing[0])
                others = {e.name for h in matches for e in h.rules} - {e.name for e in chosen.rules}
                known = replace(look.evidence, steps=chosen.steps)
                return Explanation(look.plan, known, chosen, look.failing, tuple(sorted(others)))
    least = min(looks, key=lambda look: len(look.failing))
    if _right_in_float32(target, least.plan):
        return Explanation(least.plan, least.evidence, REFERENCE, least.failing, imprecise=True)
    return Explanation(least.plan, least.evidence, None, least.failing)


def _right_in_float32(target: Target, plan: Plan) -> bool:
    """Meaning is judged in float32: what differs only in half precision is a matter of rounding."""
    if plan.contract.dtype in {None, "float32", "float64"}:
        return False
    return not _look(target, plan.but(contract=replace(plan.contract, dtype="float32"))).failing


def _other_paths(target: Target, plan: Plan, probes: list[Probe]) -> list[Observation]:
    """The same questions through every optional switch that picks another path and promises the same answer."""
    asked = [(kind, probe) for kind in ("plain", "masked", "causal") for probe in probes if probe.name == kind]
    seen: list[Observation] = []
    for label, path in [("default", plan), *((name, plan.but(flags={**plan.flags, name: value})) for name, value in plan.switches())]:
        renamed = [replace(probe, name=f"path-{kind}-{label}", compared=False) for kind, probe in asked]
        seen += ask(target, path, renamed)
    seen += _training_path(target, plan, asked)
    free = next((probe for kind, probe in asked if kind == "plain" and probe.case.allowed_mask is None), None)
    if free is not None and plan.mask is not None and not plan.abilities.always_causal:
        B, _, T_q = free.case.q.shape[:3]
        everything = torch.ones(B, 1, T_q, free.case.k.shape[-2], dtype=torch.bool)[:, :, : T_q if "T_q" in plan.abilities.mask_axes else 1]
        everything = everything if "B" in plan.abilities.mask_axes else everything[:1]
        named = replace(free, name="path-plain-with a mask that hides nothing", compared=False)
        seen += ask(target, plan, [replace(named, case=free.case.but(allowed_mask=everything))])
    return seen if len(seen) > len(asked) else []


def _training_path(target: Target, plan: Plan, asked: list[tuple[str, Probe]]) -> list[Observation]:
    """A module in training mode, when nothing in it is random."""
    if target.sketch.kind == "function":
        return []
    probes = [replace(p, name=f"path-{kind}-training mode", training=True, compared=False) for kind, p in asked]
    first, again = ask(target, plan, probes), ask(target, plan, [replace(p, seed=1) for p in probes])
    same = all(
        a.output is not None and b.output is not None and torch.equal(a.output, b.output) for a, b in zip(first, again, strict=True)
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
    """Where several rules predict the same answers, the recorded calls decide; else the first in the catalogue."""
    by_rule = {h.entries: h for h in reversed(matches)}
    if len(by_rule) == 1:
        return matches[0]
    record = _record(target, plan, seen)
    ordered = sorted(by_rule.values(), key=lambda h: [e.code for e in h.entries])
    for hypothesis in ordered:
        tests = [getattr(entry.load(), "recorded", None) for entry in hypothesis.rules]
        if any(tests) and all(test(record.recorded) for test in tests if test) :
            return hypothesis
    silent = [h for h in ordered if not any(hasattr(e.load(), "recorded") for e in h.rules)]
    return (silent or ordered)[0]


def _record(target: Target, plan: Plan, seen: Observation) -> Observation:
    """Ask the same question again and note every torch call."""
    probe = Probe(seen.probe, seen.case, integer_mask=seen.probe == "integer-mask")
    again = ask(target, plan, [probe], record=True)
    return again[0] if again else seen


class _Report:
    """Turns an explanation into findings and notes."""

    def __init__(self, target: Target, explanation: Explanation) -> None:
        self.target = target
        self.explanation = explanation
        self.plan = explanation.plan
        self.evidence = explanation.evidence

    def write(self) -> tuple[list[Finding], list[Finding]]:
        findings: list[Finding] = []
        notes: list[Finding] = []
        hypothesis = self.explanation.hypothesis
        judged = self._judged()
        if hypothesis is not None:
            findings += [self._named(entry) for entry in hypothesis.rules]
            notes += [self._variant(entry) for entry in hypothesis.entries if entry.code == "variant"]
        elif not any(judgement.wrong for _, judgement in judged):
            findings.append(self._unrecognised())
        for entry, judgement in judged:
            if judgement.wrong and any(f.code == entry.code for f in findings):
                continue
            (findings if judgement.wrong else notes).append(self._judgement(entry, judgement))
        if self.explanation.imprecise and not any(f.code == "SL702" for f in findings):
            findings.append(self._named(catalog.find_rule("SL702")))
        notes += self._unasked(notes)
        return findings, notes

    def _judged(self) -> list[tuple[Entry, Judgement]]:
        found: list[tuple[Entry, Judgement]] = []
        named = {entry.code for entry in self.explanation.hypothesis.rules} if self.explanation.hypothesis else set()
        for entry in catalog.rules():
            judge = getattr(entry.load(), "judge", None)
            if judge is None or entry.code in named:
                continue
            if entry.code in (_FOLLOW if named else set() if self.explanation.hypothesis else _NEED_FORWARD):
                continue
            try:
                judgement = judge(self.evidence)
            except RuntimeError:  # the bug that explains the target cannot itself be run in this dtype
                continue
            if judgement is not None:
                found.append((entry, judgement))
        return found

    def _named(self, entry: Entry) -> Finding:
        seen = self._clearest()
        facts = smallest(self.target, self.plan, seen)
        if self.explanation.alternatives:
            facts["alternatives"] = list(self.explanation.alternatives)
        variant = self.explanation.hypothesis.variant if self.explanation.hypothesis else None
        if isinstance(variant, str):
            facts["shape"] = variant
        return self._finding(entry, entry.summary, self._line(entry, seen), facts)

    def _clearest(self) -> Observation:
        """The failing observation that is best shown: small, and with the fewest things asked at once."""
        plain = [seen for seen in self.explanation.failing if seen.probe not in STRAINED]
        return (plain or list(self.explanation.failing))[0]

    def _unrecognised(self) -> Finding:
        seen = self._clearest()
        facts = smallest(self.target, self.plan, seen)
        return Finding(
            "SL000",
            "unrecognised",
            "The output differs from the contract in a way that no rule, nor pair of rules, reproduces.",
            line=self._first_line(),
            fix="declare what it means to compute (--layout, --mask, --causal, --scale), or compare the steps by hand",
            consequence="unknown: the smallest failing input is shown",
            evidence=facts | {"failing_probes": [s.probe for s in self.explanation.failing]},
        )

    def _first_line(self) -> int | None:
        return self.target.sketch.line

    def _judgement(self, entry: Entry, judgement: Judgement) -> Finding:
        seen = judgement.seen_in or next(iter(self.explanation.failing), None) or self.evidence.observations[0]
        line = self._line(entry, seen) if judgement.wrong else None
        return self._finding(entry, judgement.summary or entry.summary, line, dict(judgement.facts))

    def _variant(self, entry: Entry) -> Finding:
        variant = self.explanation.hypothesis.variant if self.explanation.hypothesis else None
        facts = {} if variant is None else {"measured": variant if isinstance(variant, str | float | int) else repr(variant)}
        return Finding("variant", entry.name, entry.summary, evidence=facts)

    def _finding(self, entry: Entry, summary: str, line: int | None, facts: dict[str, Any]) -> Finding:
        return Finding(
            entry.code, entry.name, summary, line=line, fix=entry.part("Fix"), consequence=entry.part("Training"), evidence=facts
        )

    def _line(self, entry: Entry, seen: Observation) -> int | None:
        module = entry.load()
        steps = getattr(module, "LINE", None) or tuple(
            name for name in ("score", "scale", "hide", "normalize", "mix", "visible", "settle", "repeat_kv_heads") if name in vars(module)
        )
        if seen.failure is not None and seen.failure.line:
            return seen.failure.line
        record = _record(self.target, self.plan, seen)
        return line_of(steps or ("score",), record, self.target.sketch, self.plan.roles)

    def _unasked(self, known: list[Finding]) -> list[Finding]:
        """Notes about what was measured and nobody declared."""
        can, notes = self.plan.abilities, []
        if self.explanation.modest_fill and not any(note.code == "SL110" for note in known):
            entry = catalog.find_rule("SL110")
            notes.append(Finding(entry.code, entry.name, "Hidden keys get a finite number: scores below it would let them in."))
        if can.always_causal and not self.plan.contract.declares("causal"):
            entry = catalog.find_rule("SL121")
            notes.append(Finding(entry.code, entry.name, "Keys after the query are hidden always; no name or docstring says so."))
        return notes


def _measured(explanation: Explanation) -> Contract:
    """Complete the contract by what was seen."""
    evidence, contract = explanation.evidence, explanation.plan.contract
    first = next((s for s in evidence.observations if s.output is not None), None)
    returns = "output" if first is None or first.weights is None else "output, weights"
    if first is not None and first.weights is not None and explanation.plan.output_path == (1,):
        returns = "weights, output"
    if explanation.plan.output_path and isinstance(explanation.plan.output_path[0], str):
        returns = "dict"
    contract = replace(contract, returns=returns)
    empty = evidence.probe("empty-row")
    if contract.empty_rows is None and empty is not None:
        contract = replace(contract, empty_rows=_empty_rows(empty))
    return contract


def _empty_rows(seen: Observation) -> Any:
    """What rows with no key return."""
    if seen.failure is not None:
        return "raises"
    if seen.output is None:
        return None
    rows = seen.output[~seen.real_rows]
    if not rows.numel():
        return None
    if rows.isnan().any():
        return "nan"
    return "zero" if not rows.any() else "uniform"
