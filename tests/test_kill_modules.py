"""Every bug class that a module can show, written into right modules of three styles, gets its own name."""

import pytest
from module_corpus import PAIRS, SINGLES, killed
from module_misses import PAIRED, SINGLE, listed


@pytest.mark.parametrize(("rule", "style"), [listed(SINGLE, key, *key) for key in SINGLES])
def test_a_mutant_of_a_module_gets_its_own_name_and_line_and_no_other(rule, style):
    diagnosis, lines = killed((rule,), style)
    assert diagnosis.named() == [rule]
    assert diagnosis.findings[0].line in lines


@pytest.mark.parametrize(("rules", "style"), [listed(PAIRED, key, *key) for key in PAIRS])
def test_two_bugs_of_different_steps_get_both_names_and_both_lines(rules, style):
    diagnosis, lines = killed(rules, style)
    assert sorted(diagnosis.named()) == sorted(rules)
    assert {finding.line for finding in diagnosis.findings} <= lines
