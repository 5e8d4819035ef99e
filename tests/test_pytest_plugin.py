"""The plugin in projects of its own: what fails, with which words, and what it costs who does not use it."""

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import softlookup

ROOT = Path(__file__).parent.parent
pytest_plugins = ["pytester"]

TARGETS = """
import math
import torch
from torch import nn

calls = []


def right(q, k, v, allowed_mask=None, is_causal=False):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -math.inf)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return scores.softmax(dim=-1) @ v


def over_queries(q, k, v):
    calls.append(1)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.softmax(dim=-2) @ v


def strange(q, k, v):
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    return scores.sin().softmax(dim=-1) @ v.cos() * 3


def raises(q, k, v):
    raise RuntimeError("no kernel for this")


class Lookup(nn.Module):
    def __init__(self, factor=1.0, causal=False):
        super().__init__()
        self.factor, self.causal = factor, causal

    def forward(self, q, k, v):
        scores = self.factor * q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if self.causal:
            scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -math.inf)
        return scores.softmax(dim=-1) @ v
"""


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported():
    """Load what a check needs: pytester forgets what is imported inside a run, and torch loads only once."""
    softlookup.check(lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1) @ v)


@pytest.fixture
def project(pytester):
    """A project with the targets above; gives a function that runs these tests in it."""
    pytester.makepyfile(targets=TARGETS)

    def run(tests, *options):
        pytester.makepyfile(test_mine=f"import pytest\nfrom targets import *\n\n\n{tests}")
        return pytester.runpytest_inprocess("--strict-markers", "-p", "no:cacheprovider", *options)

    return run


def failed_and_passed(result):
    outcomes = result.parseoutcomes()
    return outcomes.get("failed", 0), outcomes.get("passed", 0)


def test_the_plugin_is_installed_under_its_own_name():
    (plugin,) = entry_points(group="pytest11", name="softlookup")
    assert plugin.value == "softlookup.pytest_plugin"


def test_right_attention_passes_and_its_diagnosis_is_returned(project):
    result = project("""
def test_mine(attention_check):
    diagnosis = attention_check(right, causal=True, mask="allowed")
    assert diagnosis.clean
    assert diagnosis.contract.causal == "argument"
""")
    assert failed_and_passed(result) == (0, 1)


def test_the_text_of_the_failure_is_what_the_command_line_prints(project, pytester):
    project("""
def test_mine(attention_check):
    with pytest.raises(AssertionError) as failure:
        attention_check(over_queries)
    open("failure.txt", "w").write(str(failure.value))
""")
    printed = subprocess.run(
        [sys.executable, "-m", "softlookup", "check", "targets.py:over_queries"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "100", "OMP_NUM_THREADS": "1"},
        timeout=120,
        check=False,
    )
    text = (pytester.path / "failure.txt").read_text()
    line = TARGETS.strip()[: TARGETS.strip().index("softmax(dim=-2)")].count("\n") + 1
    assert f"SL211 softmax-over-queries  line {line}" in text
    assert text.splitlines() == printed.stdout.splitlines()


def test_a_failure_shows_the_line_of_the_test_and_nothing_of_ours(project):
    result = project("""
def test_mine(attention_check):
    attention_check(over_queries)
""")
    assert failed_and_passed(result) == (1, 0)
    result.stdout.fnmatch_lines([">       attention_check(over_queries)", "E*SL211 softmax-over-queries*"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    result.stdout.no_fnmatch_line("*diagnose.py*")


def test_modules_and_classes_are_checked_too_and_a_class_is_built(project):
    result = project("""
def test_instance(attention_check):
    attention_check(Lookup())

def test_class(attention_check):
    attention_check(Lookup, init={"factor": 1.0})

def test_wrong_class(attention_check):
    attention_check(Lookup, init={"factor": 9.0}, select="SL2")
""")
    assert failed_and_passed(result) == (1, 2)
    result.stdout.fnmatch_lines(["FAILED test_mine.py::test_wrong_class*"])


def test_causal_true_means_always_where_the_call_has_no_such_argument(project):
    result = project("""
def test_built_in(attention_check):
    attention_check(Lookup(causal=True), causal=True)

def test_class_with_a_flag_is_built_with_it(attention_check):
    assert attention_check(Lookup, causal=True).contract.causal == "built-in"

def test_not_causal(attention_check):
    attention_check(Lookup(causal=False), causal=True)
""")
    assert failed_and_passed(result) == (1, 2)
    result.stdout.fnmatch_lines(["*test_not_causal*", "E*SL101 future-visible*"])


def test_rules_are_selected_and_ignored(project):
    result = project("""
def test_selected(attention_check):
    attention_check(over_queries, select="SL1")

def test_ignored(attention_check):
    attention_check(over_queries, ignore=["softmax-over-queries"])

def test_not_callable_counts_whatever_is_selected(attention_check):
    attention_check(raises, select="SL1")
""")
    assert failed_and_passed(result) == (1, 2)
    result.stdout.fnmatch_lines(["*SL001 not-callable*"])


def test_a_word_that_we_do_not_know_is_refused_with_its_neighbours(project):
    result = project("""
def test_promise(attention_check):
    attention_check(right, maks="allowed")

def test_rule(attention_check):
    attention_check(right, ignore="softmax-over-query")
""")
    assert failed_and_passed(result) == (2, 0)
    result.stdout.fnmatch_lines(["*a contract has no 'maks'*", "*did you mean mask?*"])
    result.stdout.fnmatch_lines(["*no rule is called 'softmax-over-query'*", "*did you mean*"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")
    result.stdout.no_fnmatch_line("*selection.py*")


def test_the_marker_makes_one_test_for_each_rule_and_checks_once(project):
    result = project(
        """
seen = []

@pytest.mark.attention(target=over_queries)
def test_each():
    seen.append(len(calls))

def test_one_check():
    assert len(set(seen)) == 1
""",
        "-rA",
    )
    rules = len(softlookup.catalog.rules())
    assert failed_and_passed(result) == (1, rules + 2)  # SL000, SL001 and test_one_check; SL211 fails
    result.stdout.fnmatch_lines(["FAILED test_mine.py::test_each[[]SL211-softmax-over-queries[]]*"])
    result.stdout.fnmatch_lines(["PASSED test_mine.py::test_each[[]SL201-scale-missing[]]"])
    result.stdout.fnmatch_lines(["over_queries  1 finding *targets.py:*"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*traceback entries are hidden*")
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_the_marker_makes_one_test_for_each_family(project):
    result = project(
        """
@pytest.mark.attention(over_queries, per="family", select=["SL1", "SL2"])
def test_each():
    pass
""",
        "-rA",
    )
    assert failed_and_passed(result) == (1, 2)
    result.stdout.fnmatch_lines(["FAILED test_mine.py::test_each[[]SL2-arithmetic[]]*"])
    result.stdout.fnmatch_lines(["PASSED test_mine.py::test_each[[]SL1-visibility[]]"])
    result.stdout.fnmatch_lines(["PASSED test_mine.py::test_each[[]SL0-judged[]]"])


@pytest.mark.parametrize(
    ("target", "failing"), [("strange", "SL000-unrecognised"), ("raises", "SL001-not-callable")]
)
def test_rules_that_could_not_be_judged_are_skipped_and_not_passed(project, target, failing):
    result = project(
        f"""
@pytest.mark.attention(target={target}, select="SL2")
def test_each():
    pass
""",
        "-rA",
    )
    outcomes = result.parseoutcomes()
    assert outcomes["failed"] == 1
    assert "passed" not in outcomes or target == "raises"
    result.stdout.fnmatch_lines([f"FAILED test_mine.py::test_each[[]{failing}[]]*"])
    result.stdout.fnmatch_lines([f"SKIPPED*not judged: {failing[:5]}*"])


def test_what_is_no_attention_at_all_fails_once(project):
    result = project("""
@pytest.mark.attention(target=3)
def test_each():
    pass
""")
    outcomes = result.parseoutcomes()
    assert (outcomes["failed"], outcomes.get("passed", 0)) == (1, 0)
    result.stdout.fnmatch_lines(["*expected a callable or a module, got a int*"])
    result.stdout.no_fnmatch_line("*another exception occurred*")


def test_the_body_of_a_marked_test_runs_when_its_rule_holds(project):
    result = project(
        """
@pytest.mark.attention(target=over_queries, select=["SL201", "SL211"], ignore="SL0")
@pytest.mark.parametrize("size", [1, 2])
def test_each(size):
    print("the body ran for", size)
    assert size == 1
""",
        "-s",
    )
    assert failed_and_passed(result) == (3, 1)
    for size in (1, 2):  # for SL201, and not for SL211
        assert result.stdout.str().count(f"the body ran for {size}") == 1


def test_a_whole_file_may_carry_the_marker(project):
    result = project("""
pytestmark = pytest.mark.attention(target=right, select="SL201", ignore="SL0", causal=True)

def test_one():
    pass

class TestMore:
    def test_two(self):
        pass
""")
    assert failed_and_passed(result) == (0, 2)


@pytest.mark.parametrize(
    ("marker", "words"),
    [
        ("attention()", "pytest.mark.attention checks one target.*got:*0 targets*write target=..."),
        ("attention(target=right, per='code')", "per says what makes one test*'rule' or 'family'"),
        ("attention(target=right, layuot='T d')", "a contract has no 'layuot'*did you mean layout?"),
        ("attention(target=right, select='SL99')", "no rule is called 'SL99'"),
    ],
    ids=["no target", "per", "promise", "rule"],
)
def test_a_mistake_in_a_marker_is_told_while_the_tests_are_collected(project, marker, words):
    result = project(f"""
@pytest.mark.{marker}
def test_each():
    pass
""")
    assert result.parseoutcomes() == {"errors": 1}
    for line in words.split("*"):
        result.stdout.fnmatch_lines([f"*{line}*"])
    result.stdout.no_fnmatch_line("*pytest_plugin.py*")


def test_junit_carries_one_case_for_each_rule(project, pytester):
    project(
        """
@pytest.mark.attention(target=over_queries, select="SL2")
def test_each():
    pass
""",
        "--junitxml=junit.xml",
    )
    cases = {
        case.get("name"): case for case in ElementTree.parse(pytester.path / "junit.xml").iter("testcase")
    }
    failed = [name for name, case in cases.items() if case.find("failure") is not None]
    assert failed == ["test_each[SL211-softmax-over-queries]"]
    assert "test_each[SL212-softmax-over-heads]" in cases
    assert "columns of the weights sum to one" in cases[failed[0]].find("failure").text


def alone(pytester, code):
    """Run code in a new interpreter whose pytest knows no plugin but ours."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=pytester.path,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        timeout=120,
        check=False,
    )
    return done.stdout


def test_collecting_imports_neither_torch_nor_the_checker(pytester):
    pytester.makepyfile(
        test_mine="""
        import pytest

        def attend(q, k, v):
            return v

        def test_fixture(attention_check):
            attention_check(attend)

        @pytest.mark.attention(target=attend, mask="none", select="SL2")
        def test_marker():
            pass
        """
    )
    out = alone(
        pytester,
        "import sys, pytest\n"
        "assert pytest.main(['--collect-only', '-q', '-p', 'softlookup']) == 0\n"
        "print('torch' in sys.modules, [name for name in sys.modules if 'softlookup.checker' in name])",
    )
    assert "test_mine.py::test_marker[SL211-softmax-over-queries]" in out
    assert out.splitlines()[-1] == "False []"


def test_a_project_that_does_not_use_it_loads_one_module_of_ours(pytester):
    pytester.makepyfile(test_mine="def test_nothing(): pass")
    out = alone(
        pytester,
        "import sys, pytest\n"
        "assert pytest.main(['-q', '-p', 'softlookup']) == 0\n"
        "print(sorted(name for name in sys.modules if name.startswith('softlookup')))",
    )
    assert out.splitlines()[-1] == "['softlookup', 'softlookup.pytest_plugin']"


def test_the_generated_tests_may_run_on_several_workers(pytester):
    pytester.makepyfile(
        targets=TARGETS,
        test_mine="""
        import pytest
        from targets import over_queries

        @pytest.mark.attention(target=over_queries, per="family")
        def test_each():
            pass
        """,
    )
    result = pytester.runpytest_subprocess(
        "-n", "2", "--strict-markers", "-p", "no:cacheprovider", timeout=120
    )
    result.stdout.fnmatch_lines(["FAILED test_mine.py::test_each[[]SL2-arithmetic[]]*"])
    assert failed_and_passed(result)[0] == 1


# In a process of their own: this one may hold a test_attention already, the one among our tests.


def test_the_how_to_page_is_a_test_file_that_passes(pytester):
    page = (ROOT / "docs" / "how-to" / "test-your-attention.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```py\n(.*?)^```", page, re.S | re.M)
    assert len(blocks) == 4
    pytester.makepyfile(test_attention="\n\n".join(blocks))
    result = pytester.runpytest_subprocess("-v", "--strict-markers", "-p", "no:cacheprovider")
    assert set(result.parseoutcomes()) == {"passed"}
    shown = re.findall(r"^(test_attention.py::\S+) PASSED$", page, re.M)
    assert len(shown) == 4
    for line in shown:
        result.stdout.fnmatch_lines([f"{line.replace('[', '[[]')} PASSED*"])


def test_the_example_passes_and_notices_a_wrong_axis(pytester):
    example = (ROOT / "examples" / "test_attention.py").read_text(encoding="utf-8")
    for source, outcomes in (
        (example, {"passed"}),
        (example.replace("dim=-1", "dim=-2"), {"passed", "failed"}),
    ):
        pytester.makepyfile(test_attention=source)
        result = pytester.runpytest_subprocess("--strict-markers", "-p", "no:cacheprovider")
        assert set(result.parseoutcomes()) - {"skipped", "warnings"} == outcomes
    for name in ("is_right", "in_families[[]SL2-arithmetic[]]", "solves_every_problem"):
        result.stdout.fnmatch_lines([f"FAILED test_attention.py::test_attend_{name}*"])
