"""What a judge asks of a learner's file, one part after another. ``judge.py`` of an exercise lists them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from softlookup import catalog
from softlookup.checker.calls import Answer
from softlookup.checker.diagnose import declared, examine
from softlookup.checker.guard import TargetError
from softlookup.checker.target import FileSession, FileTarget
from softlookup.learn.exercise import NOT_WRITTEN, assignment
from softlookup.learn.judgement import Remark
from softlookup.learn.mistakes import Fault, explaining, fault_of
from softlookup.learn.outcomes import Given, Outcome, asked, difference, drawn, outcome_here, outcome_of
from softlookup.report.finding_parts import PAGELESS
from softlookup.terms import Contract, Finding

#: How an answer can be wrong without being a known mistake -> the name and the words.
_UNKNOWN = {
    "error": ("error-missing", "Bad input is let through: an error with a clear message is due here."),
    "raises": ("raises", "It raises on input that is right."),
    "type": ("wrong-type", "It returns something else than what is asked for."),
    "shape": ("wrong-shape", "The result has another shape."),
    "dtype": ("wrong-dtype", "The result has another kind of numbers (bool, integer or float)."),
    "finite": ("not-finite", "There is NaN or infinity in the result."),
    "values": ("wrong-values", "The numbers differ."),
}

#: The answer is right, but not what became of the arguments.
_CHANGED = Fault(
    "caller-mask-changed",
    "The answer is right, but a tensor that was handed in is changed in place: its owner still needs it.",
    "What would the same call return a second time?",
    (
        *("setitem", "masked_fill", "index_fill", "fill", "zero", "tril", "triu", "copy"),
        *("iadd", "isub", "imul", "itruediv", "iand", "ior", "add", "sub", "mul", "div"),
    ),
)


class Part(Protocol):
    """One thing that is asked."""

    @property
    def holds(self) -> str:
        """What is right when nothing is remarked, in words."""

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return what is wrong; nothing when all is right. ``source``: the text of the file."""


@dataclass(frozen=True)
class Attends:
    """A function or class is attention without a finding, as the checker judges it."""

    name: str
    contract: Contract = field(default_factory=Contract)
    init: Mapping[str, Any] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)  # rule -> what to think about
    counted: tuple[str, ...] = ()  # notes that count here, e.g. "causal-top-left"

    @property
    def holds(self) -> str:
        """What is right."""
        return f"{self.name} is attention as promised"

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return one remark for each finding."""
        target = _target(session, self.name, self.init)
        if isinstance(target, Remark):
            return [target]
        diagnosis = examine(target, declared(self.contract))
        found = [*diagnosis.findings, *(note for note in diagnosis.notes if note.name in self.counted)]
        if any("NotImplementedError" in finding.summary for finding in found):
            return [not_written(self.name)]
        return [Remark(replace(it, fix=""), self._question(it)) for it in found]

    def _question(self, finding: Finding) -> str:
        """Return what the judge asks about this rule, or the rule itself."""
        if finding.name in self.questions:
            return self.questions[finding.name]
        if finding.code in PAGELESS or not finding.code.startswith("SL"):
            return ""
        question = catalog.find_rule(finding.name).part("Ask")
        return question[:1].upper() + question[1:]


@dataclass(frozen=True)
class Computes:
    """A function gives the answers of another one; ``mistakes`` are what it may give instead.

    inputs: the smallest first: the first one that is answered wrongly is the one that is shown
    init: arguments of the constructor, where ``name`` is a class or a method
    """

    name: str
    right: Callable[..., Any]
    inputs: Sequence[Given]
    mistakes: Sequence[Callable[..., Any]] = ()
    init: Mapping[str, Any] = field(default_factory=dict)
    tolerance: float = 1e-5

    @property
    def holds(self) -> str:
        """What is right."""
        return f"{self.name} gives the right answers"

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return one remark for each mistake that explains wrong answers, or one for what none explains."""
        target = _target(session, self.name, self.init)
        if isinstance(target, Remark):
            return [target]
        answers = target.perform([given.call() for given in self.inputs])
        yours = [outcome_of(answer) for answer in answers]
        right = [outcome_here(self.right, given) for given in self.inputs]
        ran = [it for it in yours if it.error != "ValueError"]  # checks of the input may be written already
        if ran and all(it.missing for it in ran):
            return [not_written(self.name)]
        found, left = explaining(self.mistakes, self.inputs, yours, right, self.tolerance)
        wrong = [i for i in range(len(yours)) if difference(yours[i], right[i], self.tolerance)]
        remarks = []
        for mistake in found:
            i = next(i for i in wrong if self._is(mistake, i, yours[i]))
            remarks.append(self._remark(fault_of(mistake), i, answers[i], (yours[i], right[i]), source))
        if remarks:
            return remarks
        if left:
            i = left[0]
            return [self._unknown(i, answers[i], (yours[i], right[i]), source)]
        changing = [answer for answer in answers if answer.changed]
        return [_remark(_CHANGED, it, {}, last_line_of(self.name, source)) for it in changing[:1]]

    def _is(self, mistake: Callable[..., Any], i: int, yours: Outcome) -> bool:
        return not difference(yours, outcome_here(mistake, self.inputs[i]), self.tolerance)

    def _unknown(self, i: int, answer: Answer, outcomes: tuple[Outcome, Outcome], source: str) -> Remark:
        yours, right = outcomes
        name, summary = _UNKNOWN[difference(yours, right, self.tolerance)]
        if name == "raises":
            words = (yours.message or "without a message").splitlines()[0]
            summary = f"It raises {yours.error} on input that is right: {words}"
        remark = self._remark(Fault(name, summary), i, answer, outcomes, source)
        return replace(remark, finding=replace(remark.finding, line=yours.line)) if yours.line else remark

    def _remark(
        self, fault: Fault, i: int, answer: Answer, outcomes: tuple[Outcome, Outcome], source: str
    ) -> Remark:
        evidence = drawn(*outcomes)
        if "output" not in evidence:  # two words say little without what they answer
            evidence = {"given": asked(self.inputs[i]), **evidence}
        return _remark(fault, answer, evidence, last_line_of(self.name, source))


@dataclass(frozen=True)
class Behaves:
    """What comes of several calls is judged as a whole, where no single right answer exists (dropout).

    verdict: gets one outcome for each call, and returns the fault that it sees, or None
    """

    name: str
    inputs: Sequence[Given]
    verdict: Callable[[list[Outcome]], Fault | None]
    holds: str
    init: Mapping[str, Any] = field(default_factory=dict)

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return the fault, as a remark."""
        target = _target(session, self.name, self.init)
        if isinstance(target, Remark):
            return [target]
        answers = target.perform([given.call() for given in self.inputs])
        outcomes = [outcome_of(answer) for answer in answers]
        if outcomes and all(it.missing for it in outcomes):
            return [not_written(self.name)]
        if not (fault := self.verdict(outcomes)):
            return []
        remark = _remark(fault, answers[0], dict(fault.evidence), last_line_of(self.name, source))
        # A fault that names no torch function stands where a call stopped, if one did.
        stopped = next((it.line for it in outcomes if it.line and not fault.line), remark.finding.line)
        return [replace(remark, finding=replace(remark.finding, line=stopped))]


@dataclass(frozen=True)
class Refuses:
    """A class refuses arguments of its constructor, with a ValueError."""

    name: str
    init: Mapping[str, Any]

    @property
    def holds(self) -> str:
        """What is right."""
        return f"{self.name}({_written(self.init)}) is refused"

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return the remark that nothing, or something else, was raised."""
        line = last_line_of(f"{self.name}.__init__", source)
        try:
            session.target(self.name, dict(self.init))
        except TargetError as problem:
            raised = set(re.findall(r"\b\w+Error\b", problem.reason))
            if "NotImplementedError" in raised:
                return [not_written(self.name)]
            if "ValueError" in raised:
                return []
            words = f"{self.name}({_written(self.init)}) raises another error than a ValueError."
            question = "Would somebody who mistook a number understand what to change?"
            return [Remark(Finding("", "unclear-error", words, line), question)]
        words = f"{self.name}({_written(self.init)}) is built, although these numbers do not fit together."
        return [Remark(Finding("", "error-missing", words, line), "What would one head get of them?")]


def _written(init: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in init.items())


@dataclass(frozen=True)
class Says:
    """A constant of the file, e.g. ``BUG = ""``, is as it should be. It is read, the file is not asked.

    wrong: gets the constant, and returns the fault in it, or None
    empty: the value that is handed out
    """

    name: str
    wrong: Callable[[Any], Fault | None]
    empty: Any = ""

    @property
    def holds(self) -> str:
        """What is right."""
        return f"{self.name} is right"

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return the fault, as a remark."""
        value, line = constant(source, self.name)
        if value == self.empty:
            return [not_written(self.name, line)]
        fault = self.wrong(value)
        return [Remark(Finding("", fault.name, fault.summary, line), fault.question)] if fault else []


def constant(source: str, name: str) -> tuple[Any, int | None]:
    """Return the value of a constant of a file and its line; (None, None) where it is none."""
    node = assignment(ast.parse(source), name)
    if node is None:
        return None, None
    try:
        return ast.literal_eval(node.value), node.lineno
    except ValueError:
        return None, node.lineno


def not_written(name: str, line: int | None = None) -> Remark:
    """Return the remark that something is still to be written."""
    return Remark(Finding("", NOT_WRITTEN, f"{name} is still to be written.", line))


def _target(session: FileSession, name: str, init: Mapping[str, Any]) -> FileTarget | Remark:
    """Return the definition of this name, or the remark why there is none."""
    try:
        return session.target(name, dict(init))
    except TargetError as problem:
        if "NotImplementedError" in problem.reason:
            return not_written(name)
        if raised := re.search(r"got: +(.*)", problem.reason):
            words = f"{name}({_written(init)}) could not be built: {raised[1]}"
            return Remark(Finding("", "not-built", words))
        return Remark(Finding("", "name-missing", f"{name}: {problem.reason}"))


def _remark(fault: Fault, answer: Answer, evidence: dict[str, Any], otherwise: int | None) -> Remark:
    """Return the remark about a fault, on the line of a torch function that the fault names.

    otherwise: the line where no torch function ran
    """
    named = [it.line for it in answer.recorded if it.op.strip("_") in fault.line]
    if fault.result is not None:
        serial = answer.result_serials[fault.result] if fault.result < len(answer.result_serials) else None
        named = [it.line for it in answer.recorded if serial in it.writes]
    every = [it.line for it in answer.recorded]
    line = named[fault.which % len(named)] if named else every[-1] if every else otherwise
    return Remark(Finding("", fault.name, fault.summary, line, evidence=evidence), fault.question)


def last_line_of(name: str, source: str) -> int | None:
    """Return the line of the last ``return`` of a definition, or its first line where it returns nothing."""
    wanted = name.rpartition(".")[2]
    kinds = (ast.FunctionDef, ast.ClassDef)
    found = [it for it in ast.walk(ast.parse(source)) if isinstance(it, kinds) and it.name == wanted]
    if not found:
        return None
    returns = [it.lineno for it in ast.walk(found[-1]) if isinstance(it, ast.Return)]
    return max(returns, default=found[-1].lineno)
