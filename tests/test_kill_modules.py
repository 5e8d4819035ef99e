"""Every bug class that a module can show, written into right modules of many styles, gets its own name.

In every run each bug class in one of its styles, each style with some of its bugs, and a third of the pairs;
the whole table is behind the marker ``long``.
"""

import pytest
from module_corpus import PAIRS, SINGLES, killed
from module_misses import PAIRED, SINGLE, listed

RULES = sorted({rule for rule, _ in SINGLES})


def of_every_run():
    """One style for each rule: another one from rule to rule, so that all styles get their turn."""
    for number, rule in enumerate(RULES):
        styles = sorted(style for one, style in SINGLES if one == rule)
        yield rule, styles[number % len(styles)]


NOW = set(of_every_run())
TABLE = [listed(SINGLE, key, *key, marks=() if key in NOW else (pytest.mark.long,)) for key in SINGLES]


def test_every_run_meets_every_rule_and_nearly_every_style():
    assert {rule for rule, _ in NOW} == set(RULES)
    styles = {style for _, style in SINGLES}
    assert len({style for _, style in NOW}) > 0.8 * len(styles)


@pytest.mark.parametrize(("rule", "style"), TABLE)
def test_a_mutant_of_a_module_gets_its_own_name_and_line_and_no_other(rule, style):
    diagnosis, lines = killed((rule,), style)
    assert diagnosis.named() == [rule]
    assert diagnosis.findings[0].line in lines


TWO = [
    listed(PAIRED, key, *key, marks=() if number % 3 == 0 else (pytest.mark.long,))
    for number, key in enumerate(PAIRS)
]


@pytest.mark.parametrize(("rules", "style"), TWO)
def test_two_bugs_of_different_steps_get_both_names_and_both_lines(rules, style):
    diagnosis, lines = killed(rules, style)
    assert sorted(diagnosis.named()) == sorted(rules)
    assert {finding.line for finding in diagnosis.findings} <= lines
