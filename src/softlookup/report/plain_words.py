"""A contract in plain words: what was declared, and what was measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from softlookup.terms import Contract, Diagnosis, FileReport

#: Field of the contract -> its words. A field that is missing here, or whose words are empty, is not shown.
_WORDS: dict[str, Callable[[Any], str]] = {
    "layout": lambda axes: f"queries as ({axes})",
    "mask": {
        "allowed": "mask: True may be looked at",
        "blocked": "mask: True is hidden",
        "additive": "mask: added to the scores",
        "none": "no mask",
    }.__getitem__,
    "mask_shape": lambda axes: f"mask shape ({axes})",
    "causal": {
        "argument": "causal when asked",
        "built-in": "always causal",
        "none": "not causal",
    }.__getitem__,
    "corner": lambda corner: f"causal corner {corner}",
    "self_visible": lambda visible: "" if visible else "a query does not see its own key",
    "window": lambda keys: f"window of {keys} keys, itself included",
    "scale": lambda factor: f"scale {factor:g}",
    "returns": lambda what: f"returns {what}",
    "empty_rows": {
        "nan": "a row without keys gives NaN",
        "zero": "a row without keys gives zeros",
        "uniform": "a row without keys averages every value",
        "raises": "a row without keys raises",
    }.__getitem__,
    "hidden_nan": {
        "isolated": "NaN in a hidden key stays hidden",
        "leaks": "NaN in a hidden key leaks",
    }.__getitem__,
    "weights": lambda kind: f"weights {kind}" if kind == "per head" else "weights averaged over heads",
    "half": lambda runs: "half precision too" if runs else "",
    "max_score": lambda size: f"scores up to {size:g}",
    "kv_heads": lambda kind: "grouped key/value heads" if kind == "grouped" else "",
    "dtype": lambda dtype: f"judged in {dtype}",
}


def describe(contract: Contract) -> tuple[list[str], list[str]]:
    """Return what was declared and what was measured, each as a list of short phrases.

    >>> describe(Contract(layout="B H T d", mask="allowed", declared=frozenset({"mask"})))
    (['mask: True may be looked at'], ['queries as (B H T d)'])
    """
    declared: list[str] = []
    measured: list[str] = []
    for name, words in _WORDS.items():
        value = getattr(contract, name)
        phrase = "" if value is None else words(value)
        if phrase:
            (declared if contract.declares(name) else measured).append(phrase)
    return declared, measured


def count(number: int, thing: str) -> str:
    """Return a number with its noun.

    >>> count(1, "finding"), count(0, "target")
    ('1 finding', '0 targets')
    """
    return f"{number} {thing}{'' if number == 1 else 's'}"


def verdict_words(diagnosis: Diagnosis) -> str:
    """Return the verdict on one target in a few words."""
    if diagnosis.verdict == "not-callable":
        return "could not be called"
    words = "clean" if diagnosis.clean else count(len(diagnosis.findings), "finding")
    return f"{words}, {count(len(diagnosis.notes), 'note')}" if diagnosis.notes else words


def all_clean(reports: Sequence[FileReport]) -> bool:
    """Say whether something was checked, and every target is clean."""
    diagnoses = [diagnosis for report in reports for diagnosis in report.diagnoses]
    return bool(diagnoses) and all(diagnosis.clean for diagnosis in diagnoses)


def closing_words(reports: Sequence[FileReport], ignored: int = 0) -> str:
    """Return how many targets there are, how many findings, and how many of them were to be ignored.

    >>> closing_words([], 2)
    '0 targets, 0 findings, 2 ignored'
    """
    diagnoses = [diagnosis for report in reports for diagnosis in report.diagnoses]
    clean = all_clean(reports)
    findings = sum(len(diagnosis.findings) for diagnosis in diagnoses)
    notes = sum(len(diagnosis.notes) for diagnosis in diagnoses)
    words = [count(len(diagnoses), "target"), "clean" if clean else count(findings, "finding")]
    if notes:
        words.append(count(notes, "note"))
    if ignored:
        words.append(f"{ignored} ignored")
    return ", ".join(words)


def printable(text: str) -> str:
    """Return text of the user's with every character that could steer a terminal replaced by ``?``.

    >>> printable("a" + chr(27) + "[31m b" + chr(9) + "c")
    'a?[31m b    c'
    """
    return "".join(character if character.isprintable() else "?" for character in text.expandtabs(4))
