"""Every published bug that a function can show, re-created by us, gets its name and its line."""

import pytest
from checker_corpus import TESTS, bug_line, diagnosis_of, entries

WILD = [pytest.param(entry, id=entry["id"]) for entry in entries("wild")]
VERDICTS = {"unrecognised": "unrecognised", "not-callable": "not-callable"}  # else "named"


@pytest.mark.parametrize("entry", WILD)
def test_a_published_bug_is_named_and_nothing_else_is(entry):
    diagnosis = diagnosis_of(entry, "wild")
    assert diagnosis.named() in [[name] for name in (entry["expect"], *entry.get("accept", ()))]
    assert diagnosis.verdict == VERDICTS.get(diagnosis.named()[0], "named")


@pytest.mark.parametrize("entry", WILD)
def test_the_line_of_a_published_bug_is_found(entry):
    diagnosis = diagnosis_of(entry, "wild")
    if diagnosis.verdict != "unrecognised":  # what nobody knows has no line
        assert diagnosis.findings[0].line == bug_line(TESTS / "wild" / entry["file"])


@pytest.mark.parametrize("entry", WILD)
def test_a_finding_says_what_it_means_and_how_to_fix_it(entry):
    for finding in diagnosis_of(entry, "wild").findings:
        assert finding.summary
        assert finding.fix


def test_a_file_that_is_clean_would_not_pass():
    right = entries("right")[0]
    assert diagnosis_of(right, "right").named() == []
