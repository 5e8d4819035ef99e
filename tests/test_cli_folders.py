"""`softlookup check` over folders: what is checked, what counts, where reports go, what a project says."""

import io
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
from click.testing import CliRunner

from softlookup import cli
from softlookup.check_run import CheckRun, split_name
from softlookup.checker.files import Told
from softlookup.configuration import Configuration
from softlookup.console import progress
from softlookup.selection import Selection
from softlookup.terms import (
    Contract,
    Diagnosis,
    FileReport,
    Finding,
    NoAttentionError,
    Skipped,
    SoftlookupError,
)

ATTEND = "def attend(q, k, v):\n    return q\n"
FINDING = Finding("SL211", "softmax-over-queries", "columns sum to one", line=2, fix="use dim=-1")
NOTE = Finding("SL402", "empty-row-uniform", "an empty row averages every value")


def a_diagnosis(file, name="attend", verdict="clean", findings=None, notes=()):
    if findings is None:
        findings = () if verdict == "clean" else (FINDING,)
    return Diagnosis(name, "function", file, 1, Contract(), verdict, findings, notes)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the current folder, empty at first, with a function that writes files of attention into it."""
    monkeypatch.chdir(tmp_path)

    def write(*names, text=ATTEND):
        for name in names:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, encoding="utf-8")

    return write


@pytest.fixture
def checker(monkeypatch):
    """Replace the checker by one that notes what it is asked and answers with the diagnoses of each file."""
    answers, calls = {}, []

    def check_file(path, name=None, **asked):
        calls.append({"path": path, "name": name, **asked})
        diagnoses = answers.get((path, name) if name else path, (a_diagnosis(path, name or "attend"),))
        if isinstance(diagnoses, Exception):
            raise diagnoses
        return diagnoses if isinstance(diagnoses, FileReport) else FileReport(path, diagnoses, (), "2.13.0")

    def check_file_as_told(path, told_of, named, **asked):
        diagnoses = answers.get(path, (a_diagnosis(path),))
        told = {it.name: told_of(it.name) for it in diagnoses}
        calls.append({"path": path, "named": named, "told": told, "file": told_of(""), **asked})
        return FileReport(path, diagnoses, (), "2.13.0")

    fake = types.ModuleType("softlookup.checker.files")
    fake.check_file, fake.check_file_as_told, fake.Told = check_file, check_file_as_told, Told
    monkeypatch.setitem(sys.modules, "softlookup.checker.files", fake)
    return types.SimpleNamespace(answers=answers, calls=calls)


def run(*arguments):
    return CliRunner().invoke(cli.main, ["check", *(str(argument) for argument in arguments)])


def checked(checker):
    return [call["path"] for call in checker.calls]


# --- folders ---


def test_each_file_of_a_folder_that_looks_like_attention_is_checked(folder, checker):
    folder("src/a.py", "src/b/c.py")
    folder("src/sums.py", text="def add(a, b): ...")
    result = run("src")
    assert checked(checker) == ["src/a.py", "src/b/c.py"]
    assert result.exit_code == 0
    *_, passed_over, last = result.stdout.splitlines()
    assert passed_over == "Passed over: 1 without attention (name a file to check it)"
    assert last == "2 targets, clean"


def test_what_a_folder_leaves_out_is_counted_by_its_reason(folder, checker):
    folder("a.py", ".git/b.py", "tests/c.py", "test_d.py")
    assert "Passed over: 1 hidden, 2 tests (name" in run(".").stdout


def test_a_file_of_a_folder_in_which_no_attention_is_found_is_only_counted(folder, checker):
    folder("a.py", "b.py", "c.py")
    checker.answers["b.py"] = NoAttentionError("check: no attention was found in b.py.")
    checker.answers["c.py"] = FileReport("c.py", (), (Skipped("main", 3, "takes no tensors"),))
    result = run(".")
    assert result.exit_code == 0
    assert "b.py" not in result.output
    assert "c.py" not in result.output
    assert "Passed over: 2 without attention" in result.stdout


def test_a_file_of_a_folder_that_may_hold_attention_and_was_not_looked_into_is_told(folder, checker):
    folder("a.py", "b.py")
    unbuilt = NoAttentionError(
        "check: no attention was found in a.py.", got="Attention (line 9): could not be built (no argument)"
    )
    unbuilt.unseen = True
    checker.answers["a.py"] = unbuilt
    result = run(".")
    assert result.exit_code == 0
    assert "Attention (line 9): could not be built" in result.stderr
    assert "Passed over" not in result.stdout


def test_a_class_that_cannot_be_built_is_told_for_real(folder):
    folder("a.py", text="class Attention:\n    def __init__(self, odd): raise ValueError(odd)\n"
           "    def __call__(self, q, k, v): return q\n")  # fmt: skip
    assert "could not be built" in run(".", "--if-any").output


def test_the_checker_still_says_it_in_the_words_by_which_a_folder_passes_it_over(folder, tmp_path):
    folder("a.py", text="def attention_of(a, b): ...")
    result = run(".", "--if-any")
    assert result.exit_code == 0, result.output
    assert "Passed over: 1 without attention" in result.stdout


def test_another_error_in_a_folder_is_said_and_does_not_hide_the_others(folder, checker):
    folder("a.py", "b.py")
    checker.answers["a.py"] = SoftlookupError("check: there is no such device.")
    result = run(".")
    assert result.exit_code == 2
    assert "no such device" in result.stderr
    assert result.stdout.splitlines()[-1] == "1 target, clean"


def test_a_folder_without_attention_is_not_clean(folder, checker):
    folder("sums.py", text="def add(a, b): ...")
    folder("tests/a.py")
    result = run(".")
    assert result.exit_code == 2
    assert "no attention was found" in result.stderr
    assert "1 file without, tests (tests)" in result.stderr
    assert "clean" not in result.stdout


def test_if_any_attention_is_wanted_a_folder_without_is_no_error(folder, checker):
    folder("sums.py", text="def add(a, b): ...")
    result = run(".", "--if-any")
    assert result.exit_code == 0
    assert "clean" not in result.stdout


def test_if_any_judges_files_as_in_a_folder(folder, checker):
    folder("a.py", "tests/b.py")
    folder("sums.py", text="def add(a, b): ...")
    assert run("a.py", "tests/b.py", "sums.py", "--if-any").exit_code == 0
    assert checked(checker) == ["a.py"]


def test_if_any_attention_is_wrong_it_is_a_finding(folder, checker):
    folder("a.py")
    checker.answers["a.py"] = (a_diagnosis("a.py", verdict="named"),)
    assert run("a.py", "--if-any").exit_code == 1


def test_a_missing_file_is_an_error_even_if_any(folder, checker):
    assert run("nowhere.py", "--if-any").exit_code == 2


def test_a_file_that_is_named_is_checked_whatever_its_name_is(folder, checker):
    folder("tests/test_a.py")
    run("tests/test_a.py")
    assert checked(checker) == ["tests/test_a.py"]


def test_json_of_a_folder_lists_files_even_when_there_is_one(folder, checker):
    folder("a.py")
    assert [file["file"] for file in json.loads(run(".", "--format", "json").stdout)["files"]] == ["a.py"]


def test_each_file_is_told_as_it_comes(folder, checker):
    folder("a.py", "b.py")
    run_ = CheckRun(Configuration(), Selection())
    told = []
    from softlookup.file_checks import Request

    run_.check(run_.wanted(["a.py", "b.py"]), Request(), told.append)
    assert told == ["a.py", "b.py"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_on_a_terminal_progress_says_which_file_is_at_work(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with progress(2) as say:
        say("[b]a.py")
    assert "1 of 2  [b]a.py" in sys.stderr.getvalue()


def test_progress_is_silent_where_nobody_looks(folder, checker):
    folder("a.py", "b.py")
    assert run(".").stderr == ""


def test_a_path_with_a_colon_that_is_a_folder_is_taken_whole(folder):
    folder("odd:name/a.py")
    assert split_name("odd:name") == ("odd:name", None)


def test_a_folder_in_which_nothing_looks_like_attention_leaves_torch_out(folder, tmp_path):
    folder("sums.py", text="def add(a, b): ...")
    code = (
        "import sys\n"
        "from softlookup.cli import main\n"
        "try: main(['check', '.', '--if-any'])\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 False"


# --- select and ignore ---


@pytest.mark.parametrize("word", ["SL211", "SL2", "softmax-over-queries", "SL101,SL2"])
def test_an_ignored_finding_is_only_counted(folder, checker, word):
    folder("a.py")
    checker.answers["a.py"] = (a_diagnosis("a.py", verdict="named"),)
    result = run("a.py", "--ignore", word)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "1 target, clean, 1 ignored"
    assert "SL211" not in result.stdout


def test_what_is_not_selected_is_only_counted(folder, checker):
    folder("a.py")
    checker.answers["a.py"] = (a_diagnosis("a.py", verdict="named", notes=(NOTE,)),)
    assert run("a.py", "--select", "SL2").stdout.splitlines()[-1] == "1 target, 1 finding"
    result = run("a.py", "--select", "SL1", "--select", "SL4")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "1 target, clean, 1 note, 1 ignored"


def test_what_could_not_be_called_is_not_clean_because_that_is_ignored(folder, checker):
    folder("a.py")
    unrun = Finding("SL001", "not-callable", "needs an argument", line=1)
    checker.answers["a.py"] = (a_diagnosis("a.py", verdict="not-callable", findings=(unrun,)),)
    assert run("a.py", "--select", "SL2").exit_code == 1
    result = run("a.py", "--ignore", "SL001")
    assert result.exit_code == 0
    assert "could not be called, and SL001 is ignored" in result.stdout
    assert result.stdout.splitlines()[-1] == "0 targets, 0 findings, 1 ignored"


def test_an_unknown_rule_is_refused_before_anything_runs(folder, checker):
    folder("a.py")
    result = run("a.py", "--ignore", "softmax-over-querys")
    assert result.exit_code == 2
    assert "--ignore: no rule is called" in result.stderr
    assert "softmax-over-queries" in result.stderr
    assert checker.calls == []


# --- where the report goes ---


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("text", "SL211 softmax-over-queries  line 2"),
        ("json", '"code": "SL211"'),
        ("sarif", '"ruleId": "SL211"'),
        ("github", "::error file=src/größe.py,line=2,title=SL211 softmax-over-queries::"),
        ("html", "<!doctype html>"),
    ],
)
def test_the_report_goes_to_a_file_or_to_the_screen(folder, checker, tmp_path, form, words):
    folder("src/größe.py", text="# größe\n" + ATTEND)
    checker.answers["src/größe.py"] = (a_diagnosis("src/größe.py", verdict="named"),)
    on_screen = run("src", "--format", form)
    assert words in on_screen.stdout
    result = run("src", "--format", form, "--output", "report")
    assert result.stdout.splitlines() == ["1 target, 1 finding"]
    written = Path("report").read_text(encoding="utf-8")
    assert words in written
    assert written.endswith("\n")
    assert on_screen.exit_code == result.exit_code == 1


def test_sarif_is_written_even_when_nothing_could_be_checked(folder, checker):
    assert run("nowhere.py", "--format", "sarif", "--output", "a.sarif").exit_code == 2
    assert json.loads(Path("a.sarif").read_text())["runs"][0]["results"] == []


def test_a_report_that_cannot_be_written_is_an_error_in_words(folder, checker):
    folder("a.py")
    result = run("a.py", "--output", "no/such/folder/report")
    assert result.exit_code == 2
    assert "could not be written to 'no/such/folder/report'" in result.stderr


# --- the project's configuration ---


def test_the_project_says_what_options_leave_open(folder, checker):
    folder("src/a.py", "src/old/b.py")
    folder(
        "pyproject.toml",
        text='[tool.softlookup]\nignore = ["SL2"]\nexclude = ["src/old"]\ntimeout = 5\nformat = "json"\n',
    )
    checker.answers["src/a.py"] = (a_diagnosis("src/a.py", verdict="named"),)
    result = run("src")
    assert checked(checker) == ["src/a.py"]
    assert checker.calls[0]["timeout"] == 5.0
    assert json.loads(result.stdout)["files"][0]["targets"][0]["findings"] == []
    assert result.exit_code == 0


def test_options_win_over_the_project(folder, checker):
    folder("a.py")
    folder("pyproject.toml", text='[tool.softlookup]\nignore = ["SL2"]\ntimeout = 5\nformat = "json"\n')
    checker.answers["a.py"] = (a_diagnosis("a.py", verdict="named"),)
    # The last two are what they are without a project: saying so counts.
    result = run("a.py", "--ignore", "SL1", "--timeout", "60", "--format", "text")
    assert checker.calls[0]["timeout"] == 60.0
    assert result.stdout.splitlines()[-1] == "1 target, 1 finding"


def test_the_contract_of_a_file_is_declared_to_the_checker_and_options_lie_on_top(folder, checker):
    folder("a.py")
    folder(
        "pyproject.toml",
        text='[tool.softlookup.contracts."a.py"]\nmask = "blocked"\nwindow = 4\ninit = {a = 1, b = 2}\n',
    )
    run("a.py", "--mask", "allowed", "--init", "b=3")
    assert checker.calls[0]["contract"] == Contract(
        mask="allowed", window=4, declared=frozenset({"mask", "window"})
    )
    assert checker.calls[0]["init"] == {"a": 1, "b": 3}


def test_a_target_with_a_contract_of_its_own_is_checked_once_and_by_it(folder, checker):
    folder("a.py")
    table = '[tool.softlookup.contracts."a.py"]\nwindow = 4\n'
    table += '[tool.softlookup.contracts."a.py:One"]\nmask = "blocked"\ninit = {a = 1}\n'
    table += '[tool.softlookup.contracts."a.py:T*"]\nmask = "allowed"\n'
    folder("pyproject.toml", text=table)
    checker.answers["a.py"] = (a_diagnosis("a.py", "One"), a_diagnosis("a.py", "Two"))
    run("a.py", "--init", "b=2")
    (call,) = checker.calls
    assert call["named"] == ["One"]
    assert {name: told.contract.mask for name, told in call["told"].items()} == {
        "One": "blocked",
        "Two": "allowed",
    }
    assert call["told"]["One"].contract.window == 4
    assert call["told"]["One"].init == {"a": 1, "b": 2}
    assert call["file"].contract.mask is None


COUNTED = """
import torch

def attend(q, k, v, mask=None):
    open({calls!r}, "a").write("x")
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return (scores if mask is None else scores.masked_fill(mask, -torch.inf)).softmax(-1) @ v

class Maker:
    def __init__(self, width):
        self.width = width
    def weigh(self, one, two, three):
        return attend(one, two, three)
"""


def number_of_calls(folder, arguments):
    counted = Path("calls.txt")
    counted.unlink(missing_ok=True)
    result = run(*arguments)
    return counted.stat().st_size, result


def test_a_contract_of_its_own_costs_no_second_check_of_a_target(folder):
    folder("a.py", text=COUNTED.format(calls=str(Path("calls.txt").resolve())))
    once, _ = number_of_calls(folder, ["a.py", "--mask", "blocked"])
    folder("pyproject.toml", text='[tool.softlookup.contracts."a.py:attend"]\nmask = "blocked"\n')
    declared, result = number_of_calls(folder, ["a.py"])
    assert result.exit_code == 0, result.output
    assert declared == once


def test_what_only_the_project_names_is_checked_with_what_is_declared_of_it(folder):
    folder("a.py", text=COUNTED.format(calls=str(Path("calls.txt").resolve())))
    folder("pyproject.toml", text='[tool.softlookup.contracts."a.py:Maker.weigh"]\ninit = {width = 32}\n')
    result = run("a.py", "--format", "json")
    assert [it["name"] for it in json.loads(result.stdout)["targets"]] == ["attend", "Maker.weigh"]


def test_a_name_of_the_project_that_a_file_does_not_have_is_an_error_in_words(folder):
    folder("a.py", text="def attend(q, k, v):\n    return q\n")
    folder("pyproject.toml", text='[tool.softlookup.contracts."a.py:other"]\nmask = "blocked"\n')
    result = run("a.py")
    assert result.exit_code == 2
    assert "a.py defines no 'other'" in result.stderr


STOPPED = """import torch

def round_up(n, step):
    return -(-n // step) * step

import no_such_kernels

def attend(q, k, v):
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v
"""


@pytest.mark.parametrize("asked", ["a.py", "."])
def test_an_import_that_stops_before_the_attention_is_told_with_its_line(folder, asked):
    folder("a.py", text=STOPPED)
    result = run(asked, "--format", "json")
    assert result.exit_code == 1, result.output
    assert "SL001" in result.stdout
    assert "ModuleNotFoundError: No module named 'no_such_kernels'" in result.stdout
    assert '"line": 6' in result.stdout


def test_an_import_that_stops_before_a_name_is_told_when_that_is_asked_for(folder):
    folder("a.py", text=STOPPED)
    result = run("a.py:attend")
    assert result.exit_code == 1, result.output
    assert "No module named 'no_such_kernels', at line 6" in " ".join(result.stdout.split())


def test_an_import_that_stops_in_a_file_that_speaks_of_no_attention_is_no_finding(folder):
    folder("a.py", text="def double(n):\n    return 2 * n\n\nimport no_such_kernels\n")
    result = run("a.py")
    assert result.exit_code == 2
    assert "no attention was found" in result.stderr
    assert "no_such_kernels" in result.stderr


def test_an_import_that_stops_after_the_attention_leaves_what_was_found(folder):
    folder("a.py", text=STOPPED.replace("import no_such_kernels\n", "") + "\nimport no_such_kernels\n")
    result = run("a.py")
    assert "scale-missing" in result.stdout
    assert "SL001" not in result.stdout


def test_a_target_that_is_named_on_the_command_line_is_checked_once(folder, checker):
    folder("a.py")
    folder("pyproject.toml", text='[tool.softlookup.contracts."a.py:One"]\nmask = "blocked"\n')
    run("a.py:One")
    assert [(call["name"], call["contract"].mask) for call in checker.calls] == [("One", "blocked")]


def test_a_configuration_that_cannot_be_meant_has_status_two(folder, checker):
    folder("a.py")
    folder("pyproject.toml", text="[tool.softlookup]\nselct = []\n")
    result = run("a.py")
    assert result.exit_code == 2
    assert "did you mean select" in result.stderr
    assert checker.calls == []
