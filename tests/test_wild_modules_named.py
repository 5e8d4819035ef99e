"""Every published bug that takes a module to be seen, re-created by us, gets its name and its line."""

import pytest
from module_corpus import diagnosis_of, entries, lines_of
from module_misses import WILD, listed

REPORTS = [listed(WILD, entry["id"], entry) for entry in entries("wild", "expected_modules.json")]


@pytest.mark.parametrize("entry", REPORTS)
def test_a_published_bug_of_a_module_is_named_on_its_line_and_nothing_else_is(entry):
    diagnosis = diagnosis_of(entry, "wild")
    assert diagnosis.named() in [[name] for name in (entry["expect"], *entry.get("accept", ()))]
    if diagnosis.verdict == "named":
        assert diagnosis.findings[0].line in lines_of(entry)


def test_fifty_two_reports_are_looked_at():
    assert len(REPORTS) == 52
