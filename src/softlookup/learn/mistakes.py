"""Mistakes: what a learner may have computed instead. A mistake is a small function with a docstring.

Its name is the name that is shown (a rule's, where there is such a rule), the first line of its docstring
says what is wrong, and the paragraph ``Ask:`` is a question to think about. Where its answers are the
learner's answers, that is what was made - as the rules of the checker are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import getdoc
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from softlookup.learn.outcomes import Given, Outcome, difference, outcome_here

Function = TypeVar("Function", bound=Callable[..., Any])


class Fault(NamedTuple):
    """What is said of a mistake."""

    name: str
    summary: str
    question: str = ""
    line: tuple[str, ...] = ()  # torch functions, one of which stands on the line
    which: int = -1  # of those that ran, in order
    evidence: Mapping[str, Any] = MappingProxyType({})  # to be drawn, as that of a Finding
    result: int | None = None  # which of the tensors that are returned is wrong: the line is where it is made


def shown_at(*functions: str, which: int = -1) -> Callable[[Function], Function]:
    """Say which torch functions stand on the line of a mistake, e.g. ``@shown_at("tril", "triu")``.

    which: of those that ran, in order; the last one unless said otherwise
    """

    def mark(function: Function) -> Function:
        function.__dict__.update(line=functions, which=which)
        return function

    return mark


def fault_of(mistake: Callable[..., Any]) -> Fault:
    """Return what a mistake says of itself."""
    page = getdoc(mistake) or ""
    _, _, question = page.partition("Ask:")
    summary = " ".join(page.split("\n\n")[0].split())
    name = mistake.__name__.strip("_").replace("_", "-")
    shown = vars(mistake)
    return Fault(name, summary, " ".join(question.split()), shown.get("line", ()), shown.get("which", -1))


def explaining(
    mistakes: Sequence[Callable[..., Any]],
    inputs: Sequence[Given],
    yours: Sequence[Outcome],
    right: Sequence[Outcome],
    tolerance: float,
) -> tuple[list[Callable[..., Any]], list[int]]:
    """Return the fewest mistakes that give all of the wrong answers, and the wrong ones that none gives.

    A mistake that would give a wrong answer where the learner's is right was not made.
    """
    wrong = [i for i in range(len(inputs)) if difference(yours[i], right[i], tolerance)]
    gives: list[tuple[Callable[..., Any], set[int]]] = []
    for mistake in mistakes:
        theirs = [outcome_here(mistake, given) for given in inputs]
        same = {i for i in range(len(inputs)) if not _differ(yours[i], theirs[i], tolerance)}
        off = {i for i in range(len(inputs)) if difference(theirs[i], right[i], tolerance)}
        if off and off & same and not (off - set(wrong)):
            gives.append((mistake, same & off & set(wrong)))
    found, left = [], set(wrong)
    while left and gives:
        best, its = max(gives, key=lambda pair: len(pair[1] & left))
        if not its & left:
            break
        found.append(best)
        left -= its
    return found, sorted(left)


def _differ(yours: Outcome, theirs: Outcome, tolerance: float) -> str:
    return difference(yours, theirs, tolerance) or difference(theirs, yours, tolerance)
