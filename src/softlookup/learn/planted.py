"""Exercises with a planted bug: the learner names it, then mends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from softlookup import catalog
from softlookup.checker.target import FileSession
from softlookup.learn.judgement import Remark
from softlookup.learn.parts import Attends, constant
from softlookup.terms import Contract, Finding

#: The constant in which the learner says what was planted.
ANSWER = "BUG"


@dataclass(frozen=True)
class Planted:
    """A function or class with one bug of the catalogue in it.

    Until the bug is named, only what it does is shown; afterwards its line; in the end both must be right.
    """

    name: str
    rule: str
    contract: Contract = field(default_factory=Contract)
    init: Mapping[str, Any] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)  # of Attends, for what a mend may end in

    @property
    def holds(self) -> str:
        """What is right."""
        return f"the bug is named, and {self.name} is mended"

    def remarks(self, session: FileSession, source: str) -> list[Remark]:
        """Return what is still to be done."""
        said, line = constant(source, ANSWER)
        found = Attends(self.name, self.contract, self.init, self.questions).remarks(session, source)
        named = str(said or "").strip().lower()
        about = _about_the_name(named, self.rule, line)
        planted = [it for it in found if it.finding.name == self.rule]
        others = [it for it in found if it.finding.name != self.rule]
        if planted and about:  # the question of a rule would tell its name
            veiled = (replace(it, veiled=True, question="") for it in planted)
            return [*([about] if named else []), *veiled, *others]
        if planted:
            question = "The name is right. What should this line do instead?"
            return [*(replace(it, question=question) for it in planted), *others]
        return others or ([about] if about else [])


def _about_the_name(said: str, rule: str, line: int | None) -> Remark | None:
    """Return what is wrong with the learner's answer; None when it is the name that is looked for."""
    if said in {rule, catalog.find_rule(rule).code.lower()}:
        return None
    if not said:
        words = f"The code is mended. What was wrong with it? Write the name of its rule: {ANSWER} = ..."
        return Remark(Finding("", "bug-not-named", words, line), "Which names of `softlookup rules` fit?")
    known = {name for rule in catalog.rules() for name in (rule.name, rule.code.lower())}
    if said not in known:
        words = f"{said!r} is no rule; `softlookup rules` lists the names."
        return Remark(Finding("", "unknown-name", words, line), "Which step does it go wrong in?")
    words = f"It is not {said}."
    question = "What would one see in that case, and what does one see here?"
    return Remark(Finding("", "another-bug", words, line), question)
