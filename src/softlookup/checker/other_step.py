"""Where two paths disagree: which rules name what the other path does, so that its line can be shown."""

from __future__ import annotations

from softlookup.catalog import Entry
from softlookup.checker.evidence import Evidence, Observation
from softlookup.checker.hypotheses import REFERENCE, Scale, explains, singles


def rules_of_the_other_path(evidence: Evidence, seen: Observation) -> list[Entry]:
    """Return the rules that alone predict every answer of the path that ``seen`` was asked through.

    Empty where none does, and where that is no other path: its probe is not called "path-KIND-SWITCH".
    """
    if not seen.probe.startswith("path-"):
        return []
    switch = seen.probe.split("-", 2)[2]
    asked = [one for one in evidence.probes("path-") if one.probe.split("-", 2)[2] == switch]
    answered = [one for one in asked if one.output is not None]
    scale = Scale()
    wrong = [one for one in answered if not scale.compare(one, REFERENCE).fits]
    if not wrong:
        return []
    ordered = wrong + [one for one in answered if one not in wrong]
    names = {one.probe for one in wrong}
    found = {
        hypothesis.entries[0]
        for hypothesis in singles(evidence)
        if explains(scale, ordered, hypothesis, names) is not None
    }
    return sorted(found, key=lambda rule: rule.code)
