"""Every bug class, written into right files of several styles, gets its own name and no other: float32.

Visibility is in `test_kill_visibility.py`, half precision in `test_kill_table_in_half.py`;
docs/reference/kill-table.md shows the whole table.
"""

import pytest
from checker_corpus import SINGLES, STYLES, VISIBILITY, diagnosis_of_style, killed

OTHERS = [single for single in SINGLES if single not in VISIBILITY]


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.stem)
def test_the_right_file_behind_the_mutants_is_clean(style):
    assert diagnosis_of_style(style).named() == []


@pytest.mark.parametrize(("rule", "style"), OTHERS)
def test_a_mutant_gets_its_own_name_and_no_other(rule, style):
    diagnosis, _ = killed((rule,), style)
    assert diagnosis.named() == [rule]


@pytest.mark.parametrize(("rule", "style"), OTHERS)
def test_the_first_finding_stands_on_a_line_that_is_wrong(rule, style):
    diagnosis, lines = killed((rule,), style)
    assert next((finding.line for finding in diagnosis.findings), None) in lines
