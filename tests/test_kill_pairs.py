"""Two bugs in one file are both named; wrong code of no known kind is never called clean nor given a name."""

import pytest
from checker_corpus import PAIRS, UNKNOWN, killed


@pytest.mark.parametrize(
    ("rules", "style"), PAIRS, ids=[f"{'+'.join(rules)}-{style}" for rules, style in PAIRS]
)
def test_two_bugs_get_both_names_and_both_lines(rules, style):
    diagnosis, lines = killed(rules, style)
    assert sorted(diagnosis.named()) == sorted(rules)
    assert {finding.line for finding in diagnosis.findings} <= lines


@pytest.mark.parametrize(("kind", "style"), UNKNOWN)
def test_wrong_code_of_no_known_kind_is_unrecognised(kind, style):
    diagnosis, _ = killed((kind,), style)
    assert [finding.code for finding in diagnosis.findings] == ["SL000"]
    assert diagnosis.verdict == "unrecognised"
