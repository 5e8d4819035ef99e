"""Every bug about who may look at whom, written into right files of several styles, is named: float32."""

import pytest
from checker_corpus import VISIBILITY, killed


@pytest.mark.parametrize(("rule", "style"), VISIBILITY)
def test_a_mutant_of_visibility_gets_its_own_name_and_no_other(rule, style):
    diagnosis, _ = killed((rule,), style)
    assert diagnosis.named() == [rule]


@pytest.mark.parametrize(("rule", "style"), VISIBILITY)
def test_the_first_finding_of_visibility_stands_on_a_line_that_is_wrong(rule, style):
    diagnosis, lines = killed((rule,), style)
    assert next((finding.line for finding in diagnosis.findings), None) in lines
