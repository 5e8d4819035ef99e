"""Turn an explanation into findings and notes: names, lines, the smallest case, what to do."""

from __future__ import annotations

from typing import Any

from softlookup import catalog
from softlookup.catalog import Entry
from softlookup.checker.calls import Failure, Target
from softlookup.checker.evidence import Judgement, Observation, same
from softlookup.checker.exhibit import smallest
from softlookup.checker.explaining import Explanation, record
from softlookup.checker.hypotheses import STRAINED, Hypothesis
from softlookup.checker.layer_plan import LayerPlan
from softlookup.checker.lengths import other_lengths_are_promised, raised_for_other_lengths
from softlookup.checker.locate import line_of
from softlookup.checker.other_step import rules_of_the_other_path
from softlookup.checker.own_weights import unlike_its_recipe
from softlookup.checker.promised_biases import half_biased
from softlookup.terms import Finding


class FindingWriter:
    """Turns an explanation into findings and notes."""

    def __init__(self, target: Target, explanation: Explanation) -> None:
        self.target = target
        self.explanation = explanation
        self.plan = explanation.plan
        self.evidence = explanation.evidence

    def write(self) -> tuple[list[Finding], list[Finding]]:
        """Return the findings (wrong) and the notes (measured)."""
        findings: list[Finding] = []
        notes: list[Finding] = []
        hypothesis = self.explanation.hypothesis
        judged = self._judged()
        if hypothesis is not None:
            findings += [self._named(entry) for entry in hypothesis.rules]
            notes += [self._variant(entry) for entry in hypothesis.entries if entry.code == "variant"]
        elif not any(judgement.wrong and hasattr(entry.load(), "EXPLAINS") for entry, judgement in judged):
            findings.append(self._unrecognised())
        for entry, judgement in judged:
            if judgement.wrong and any(f.code == entry.code for f in findings):
                continue
            (findings if judgement.wrong else notes).append(self._judgement(entry, judgement))
        if self.explanation.imprecise and not any(f.code == "SL702" for f in findings):
            findings.append(self._named(catalog.find_rule("SL702")))
        if not findings and isinstance(self.plan, LayerPlan):
            findings += self._with_its_own_weights(self.plan)
        if not findings and (raised := raised_for_other_lengths(self.target, self.plan)):
            promised = other_lengths_are_promised(self.target, self.plan)
            (findings if promised else notes).append(_one_length(raised))
        notes += self._unasked(notes)
        return findings, notes

    def _with_its_own_weights(self, plan: LayerPlan) -> list[Finding]:
        """Compare a module whose lookup is explained with the same recipe and its own weights."""
        facts = unlike_its_recipe(self.target, plan, self.evidence.steps)
        text = "The lookup is right, but with its own weights and biases the module is not its own recipe."
        fix = "look at what happens to biases, at buffers that are too short, and at what follows the merge"
        line: int | None = self.target.sketch.line
        if facts is None and (halfway := half_biased(self.target.sketch, plan.wiring)):
            facts, text = {}, halfway
            fix = "hand the switch on to every projection: `nn.Linear(..., bias=bias)`"
            recorded = record(self.target, plan, self.evidence.observations[0])
            line = line_of(("project out",), recorded, self.target.sketch, plan.roles)
        if facts is None:
            return []
        return [
            Finding("SL000", "unrecognised", text, line=line, fix=fix, consequence="unknown", evidence=facts)
        ]

    def _judged(self) -> list[tuple[Entry, Judgement]]:
        """Ask every rule that judges, but for those that the explanation leaves nothing to say."""
        hypothesis = self.explanation.hypothesis
        named = {entry.code for entry in hypothesis.rules} if hypothesis else set()
        explaining = hypothesis.entries if hypothesis else ()
        cancels = any(getattr(entry.load(), "TOTALS_MAY_CANCEL", False) for entry in explaining)
        found: list[tuple[Entry, Judgement]] = []
        for entry in catalog.rules():
            rule = entry.load()
            silent = (
                not hasattr(rule, "judge")
                or entry.code in named
                or (bool(named) and getattr(rule, "FOLLOWS_OTHERS", False))
                or (hypothesis is None and getattr(rule, "NEEDS_FORWARD", False))
                or (cancels and getattr(rule, "JUDGES_ROUNDING", False))
            )
            if silent:
                continue
            try:
                judgement = rule.judge(self.evidence)
            except (RuntimeError, IndexError):  # the bug that explains it cannot itself be run on this
                continue
            if judgement is not None:
                found.append((entry, judgement))
        return found

    def _named(self, entry: Entry) -> Finding:
        seen = self._clearest(entry)
        facts = smallest(self.target, self.plan, seen)
        if self.explanation.alternatives:
            facts["alternatives"] = list(self.explanation.alternatives)
        variant = self.explanation.hypothesis.variant if self.explanation.hypothesis else None
        if isinstance(variant, str):
            facts["shape"] = variant
        return self._finding(entry, entry.summary, self._line(entry, seen), facts)

    def _clearest(self, entry: Entry | None = None) -> Observation:
        """The failing observation that is best shown: small, and with the fewest things asked at once.

        entry: one of several bugs; what the others explain alone does not show this one
        """
        failing = sorted(self.explanation.failing, key=lambda seen: seen.probe in STRAINED)
        whole = self.explanation.hypothesis
        if entry is not None and whole is not None and len(whole.entries) > 1:
            others = _without(whole, entry)
            showing = (seen for seen in failing if _differ(others, whole, seen))
            return next(showing, failing[0])
        return failing[0]

    def _unrecognised(self) -> Finding:
        seen = self._clearest()
        facts = smallest(self.target, self.plan, seen, fully=True)
        return Finding(
            "SL000",
            "unrecognised",
            "The output differs from the contract in a way that no rule, nor pair of rules, reproduces.",
            line=self.target.sketch.line,
            fix="declare what it means to compute (--layout, --mask, --causal, --scale), "
            "or compare the steps by hand",
            consequence="unknown: the smallest failing input is shown",
            evidence=facts | {"failing_probes": [s.probe for s in self.explanation.failing]},
        )

    def _judgement(self, entry: Entry, judgement: Judgement) -> Finding:
        seen = (
            judgement.seen_in or next(iter(self.explanation.failing), None) or self.evidence.observations[0]
        )
        facts = dict(judgement.facts)
        others = rules_of_the_other_path(self.evidence, seen) if judgement.wrong else []
        if others:
            facts["other_path"] = [rule.name for rule in others]
        blamed = others[0] if others and self._has_lines_of_its_own(seen) else entry
        line = self._line(blamed, seen) if judgement.wrong else None
        return self._finding(entry, judgement.summary or entry.summary, line, facts)

    def _has_lines_of_its_own(self, seen: Observation) -> bool:
        """Say whether a path does more than to leave out what the usual one does."""
        usual = self.evidence.probe("-".join(seen.probe.split("-")[:2]) + "-default")
        if usual is None:
            return False
        here, there = (record(self.target, self.plan, one).recorded for one in (seen, usual))
        return bool({one.line for one in here} - {one.line for one in there})

    def _variant(self, entry: Entry) -> Finding:
        variant = self.explanation.hypothesis.variant if self.explanation.hypothesis else None
        facts = (
            {}
            if variant is None
            else {"measured": variant if isinstance(variant, str | float | int) else repr(variant)}
        )
        return Finding("variant", entry.name, entry.summary, evidence=facts)

    def _finding(self, entry: Entry, summary: str, line: int | None, facts: dict[str, Any]) -> Finding:
        return Finding(
            entry.code,
            entry.name,
            summary,
            line=line,
            fix=entry.part("Fix"),
            consequence=entry.part("Training"),
            evidence=facts,
        )

    def _line(self, entry: Entry, seen: Observation) -> int | None:
        module = entry.load()
        steps = getattr(module, "LINE", None) or tuple(
            name
            for name in ("score", "scale", "hide", "normalize", "mix", "visible", "settle", "repeat_kv_heads")
            if name in vars(module)
        )
        if seen.failure is not None and seen.failure.line:
            return seen.failure.line
        recorded = record(self.target, self.plan, seen)
        return line_of(steps or ("score",), recorded, self.target.sketch, self.plan.roles)

    def _unasked(self, known: list[Finding]) -> list[Finding]:
        """Notes about what was measured and nobody declared."""
        can, notes = self.plan.abilities, []
        for name, reason in self.plan.left_out:
            notes.append(Finding("SL001", "not-callable", f"{name} was left out: {reason}"))
        raised = [seen for seen in self.evidence.observations if seen.failure is not None and seen.compared]
        if can.longest:  # more tokens than its tables are made for: to raise is right
            raised = [seen for seen in raised if seen.case.k.shape[-2] <= can.longest]
        if raised:
            first = raised[0]
            assert first.failure is not None
            words = first.failure.message.splitlines()[0][:120] if first.failure.message else ""
            facts = {"questions": [seen.probe for seen in raised]}
            text = f"{len(raised)} questions raised, {first.probe} first: {first.failure.kind}: {words}"
            notes.append(Finding("SL001", "not-callable", text, line=first.failure.line, evidence=facts))
        if self.explanation.modest_fill and not any(note.code == "SL110" for note in known):
            text = "Hidden keys get a finite number: scores below it would let them in."
            notes.append(_measured("SL110", text))
        if self.plan.contract.corner == "top-left" and not self.plan.contract.declares("corner"):
            text = "When T_q != T_k the causal corner is top-left: wrong with a key/value cache."
            notes.append(_measured("SL104", text))
        if can.fixed_window and not self.plan.contract.declares("window"):
            notes.append(_window(can.fixed_window, both_ways=can.window_ahead))
        if can.causal_unless_masked:
            text = "A given mask takes the place of the causal rule: it has to hide later keys itself."
            notes.append(_measured("SL114", text))
        if can.always_causal and not self.plan.contract.declares("causal"):
            when = "where no mask is given" if can.causal_unless_masked else "always"
            text = f"Keys after the query are hidden {when}; no name or docstring says so."
            notes.append(_measured("SL121", text))
        return notes


def _one_length(raised: Failure) -> Finding:
    """Return the finding about inputs that must have as many tokens as each other."""
    words = raised.message.partition("\n")[0][:160]
    text = f"It runs only with as many source tokens as target tokens; else {raised.kind}: {words}"
    fix = "take the lengths of keys and values from their own input: `k.shape[1]`, not `q.shape[1]`"
    return Finding("SL001", "not-callable", text, line=raised.line, fix=fix)


def _window(keys: int, *, both_ways: bool) -> Finding:
    """Return the note of a window that is built in."""
    entry = next(entry for entry in catalog.variants() if entry.name == "sliding-window")
    side = "to each side" if both_ways else "backwards"
    facts = {"keys": keys, "itself": "included", "direction": side}
    return Finding("variant", entry.name, entry.summary, evidence=facts)


def _measured(code: str, text: str) -> Finding:
    """Return a note in a rule's name."""
    return Finding(code, catalog.find_rule(code).name, text)


def _without(hypothesis: Hypothesis, entry: Entry) -> Hypothesis:
    """Return the hypothesis with the steps of one of its rules put right."""
    module = entry.load().__name__
    kept = {
        n: step for n, step in hypothesis.edits.items() if getattr(step, "func", step).__module__ != module
    }
    return Hypothesis(edits=kept)


def _differ(one: Hypothesis, other: Hypothesis, seen: Observation) -> bool:
    """Say whether two hypotheses predict different answers; one that cannot be run predicts none."""
    try:
        return not same(one(seen.case), other(seen.case))
    except (RuntimeError, IndexError, ValueError):
        return True
