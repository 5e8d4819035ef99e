"""Two bugs in one file are both named, each with a line that is wrong."""

import pytest
from checker_corpus import PAIRS, killed


@pytest.mark.parametrize(
    ("rules", "style"), PAIRS, ids=[f"{'+'.join(rules)}-{style}" for rules, style in PAIRS]
)
def test_two_bugs_get_both_names_and_both_lines(rules, style):
    diagnosis, lines = killed(rules, style)
    assert sorted(diagnosis.named()) == sorted(rules)
    assert {finding.line for finding in diagnosis.findings} <= lines
