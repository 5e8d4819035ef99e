"""The pytest plugin: the fixture ``attention_check``, and the marker ``attention``, one test for each rule.

pytest loads this file in every project where softlookup is installed, so nothing but pytest is imported until
one of the two is used.
"""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import pytest

if TYPE_CHECKING:
    from softlookup.selection import Selection
    from softlookup.terms import Diagnosis

_WIDTH = 100  # of the report; pytest puts four characters in front of each line
_RULES = "_softlookup_rules"  # the parameter by which one function becomes many tests
_MARKER = (
    "attention(target=..., init={...}, select=(), ignore=(), per='rule', **contract): check attention with "
    "softlookup, as one test for each rule, or with per='family' one for each family of rules"
)
_FAMILIES = {
    "SL0": "judged",
    "SL1": "visibility",
    "SL2": "arithmetic",
    "SL3": "heads-and-layout",
    "SL4": "empty-rows",
    "SL5": "positions",
    "SL6": "cache",
    "SL7": "precision",
    "SL8": "training",
    "SL9": "conduct",
}


class AttentionCheck(Protocol):
    """What the fixture ``attention_check`` gives."""

    def __call__(
        self,
        target: Any,
        *,
        init: dict[str, Any] | None = None,
        select: str | Iterable[str] = (),
        ignore: str | Iterable[str] = (),
        **promised: Any,
    ) -> Diagnosis:
        """Fail with the report when something is wrong, else return the diagnosis.

        target: a function, a module, or a class, which is built with ``init``
        select, ignore: the rules that count, by code (SL211), beginning of a code (SL2) or name
        promised: what the target promises, as the fields of ``Contract``, and shorter: ``causal=True`` and
            others, see ``softlookup.promises``
        """


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known, also to --strict-markers."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def attention_check(pytestconfig: pytest.Config) -> AttentionCheck:
    """Check attention: ``attention_check(MyAttention, causal=True)`` fails the test with the report."""

    def check(
        target: Any,
        *,
        init: dict[str, Any] | None = None,
        select: str | Iterable[str] = (),
        ignore: str | Iterable[str] = (),
        **promised: Any,
    ) -> Diagnosis:
        __tracebackhide__ = True
        question = _Question(target, init or {}, select, ignore, promised)
        from softlookup.terms import SoftlookupError

        try:
            diagnosis = question.diagnosis
        except SoftlookupError as error:
            raise error.with_traceback(None) from None  # its words say it all
        if diagnosis.findings:
            raise AssertionError(_report(diagnosis, pytestconfig.rootpath))
        return diagnosis

    return check


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each rule out of a function with the marker."""
    marker = metafunc.definition.get_closest_marker("attention")
    if marker is None:
        return
    from softlookup.terms import SoftlookupError

    try:
        question, per = _read(marker)
        groups = _groups(question.selection, per)
    except SoftlookupError as problem:
        raise pytest.Collector.CollectError(f"{metafunc.definition.name}: {problem}") from None
    tests = [_RulesHold(question, codes) for codes in groups.values()]
    metafunc.fixturenames.append(_RULES)  # no argument of the function: the hook below reads it
    metafunc.parametrize(_RULES, tests, ids=list(groups), indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Before the body of a marked test: assert its rules."""
    made_by = getattr(pyfuncitem, "callspec", None)
    if made_by is not None and _RULES in made_by.params:
        made_by.params[_RULES].hold(pyfuncitem.config.rootpath)


@dataclass(frozen=True)
class _Question:
    """A target, the rules that count, and what it promises. The check runs once, when it is first needed."""

    target: Any
    init: dict[str, Any]
    select: str | Iterable[str]
    ignore: str | Iterable[str]
    promised: dict[str, Any]

    @cached_property
    def selection(self) -> Selection:
        """The rules that count."""
        from softlookup.selection import read_selection

        return read_selection(self.select, self.ignore)

    @cached_property
    def diagnosis(self) -> Diagnosis:
        """The findings that count."""
        import softlookup
        from softlookup.promises import written_out

        selection = self.selection
        contract, init = written_out(self.target, self.promised, self.init)
        return selection.of(softlookup.check(self.target, contract, init=init))


@dataclass(frozen=True)
class _RulesHold:
    """What one generated test asserts: that the check found nothing under these codes."""

    question: _Question
    codes: frozenset[str]

    def hold(self, root: Path) -> None:
        """Fail with the report of these rules; skip where the check could not judge them.

        The test's own lines say nothing here, so no failure has a traceback.
        """
        from softlookup.selection import UNJUDGED
        from softlookup.terms import SoftlookupError

        refused = ""
        try:
            diagnosis = self.question.diagnosis
        except SoftlookupError as error:
            refused = str(error)
        if refused:  # outside, or pytest would show what it was handling
            self._not_judged(refused)
        found = tuple(finding for finding in diagnosis.findings if finding.code in self.codes)
        if found:
            pytest.fail(_report(replace(diagnosis, findings=found), root), pytrace=False)
        for finding in diagnosis.findings:
            if finding.code in UNJUDGED:
                pytest.skip(f"not judged: {finding.code} {finding.name}: {finding.summary}")

    def _not_judged(self, refused: str) -> NoReturn:
        """Fail once, as SL001, and skip the rest."""
        if "SL001" in self.codes or not self.question.selection.counts("SL001", "not-callable"):
            pytest.fail(refused, pytrace=False)
        pytest.skip(f"not judged: {refused}")


def _read(marker: pytest.Mark) -> tuple[_Question, str]:
    """Return the question and what makes one test, "rule" or "family".

    Raises: SoftlookupError for a marker that asks nothing, or for something that we do not know.
    """
    from softlookup.terms import PROMISES, SoftlookupError, refuse_unknown

    given = dict(marker.kwargs)
    targets = [*marker.args, *([given.pop("target")] if "target" in given else [])]
    if len(targets) != 1:
        raise SoftlookupError(
            "pytest.mark.attention checks one target.",
            expected='@pytest.mark.attention(target=attend, mask="allowed")',
            got=f"{len(targets)} targets",
            hint="write target=...: pytest takes a function alone in the brackets for the marked test",
        )
    per = given.pop("per", "rule")
    if per not in ("rule", "family"):
        raise SoftlookupError(
            "pytest.mark.attention: per says what makes one test.",
            expected="'rule' or 'family'",
            got=repr(per),
        )
    init, select, ignore = given.pop("init", None), given.pop("select", ()), given.pop("ignore", ())
    refuse_unknown(given, PROMISES, "attention: a contract")
    return _Question(targets[0], init or {}, select, ignore, given), per


def _groups(selection: Selection, per: str) -> dict[str, frozenset[str]]:
    """Return the codes that each test asserts, under the test's id."""
    from softlookup import catalog
    from softlookup.selection import UNJUDGED

    rules = [*UNJUDGED.items(), *((entry.code, entry.name) for entry in catalog.rules())]
    groups: dict[str, frozenset[str]] = {}
    for code, name in rules:
        if selection.counts(code, name):
            family = code[:3]
            label = f"{code}-{name}" if per == "rule" else f"{family}-{_FAMILIES[family]}"
            groups[label] = groups.get(label, frozenset()) | {code}
    return groups


def _report(diagnosis: Diagnosis, root: Path) -> str:
    """Return what ``softlookup check`` prints, as plain text."""
    from rich.console import Console

    from softlookup.report.terminal import closing_line, file_renderable
    from softlookup.terms import FileReport

    path = Path(diagnosis.file)
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else diagnosis.file
    source = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    report = FileReport(shown, (diagnosis,))
    out = io.StringIO()
    console = Console(file=out, width=_WIDTH, color_system=None, highlight=False, markup=False, emoji=False)
    console.print(file_renderable(report, source), closing_line([report]), crop=False)
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())
