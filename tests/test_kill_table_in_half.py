"""The kill table in half precision: bfloat16, or float16 where a bug shows only there.

Every rule in one style, which takes seconds; with SOFTLOOKUP_WHOLE_TABLE=1 every rule in every style, as in
docs/reference/kill-table.md.
"""

import os

import pytest
from checker_corpus import ONE_STYLE_EACH, SINGLES, STYLES, diagnosis_of_style, half_of, killed

HALF = SINGLES if os.environ.get("SOFTLOOKUP_WHOLE_TABLE") else ONE_STYLE_EACH


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.stem)
def test_the_right_file_behind_the_mutants_is_clean_in_bfloat16(style):
    assert diagnosis_of_style(style, "bfloat16").named() == []


@pytest.mark.parametrize(("rule", "style"), HALF)
def test_a_mutant_gets_its_own_name_and_no_other_in_half_precision(rule, style):
    diagnosis, _ = killed((rule,), style, half_of(rule, style))
    assert diagnosis.named() == [rule]


@pytest.mark.parametrize(("rule", "style"), HALF)
def test_the_first_finding_stands_on_a_line_that_is_wrong_in_half_precision(rule, style):
    diagnosis, lines = killed((rule,), style, half_of(rule, style))
    assert next((finding.line for finding in diagnosis.findings), None) in lines
