"""The command line: what it hands to the checker, what it prints, and how it exits."""

import json
import os
import subprocess
import sys
import types
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from softlookup import cli
from softlookup.catalog import rules
from softlookup.check_run import split_name
from softlookup.terms import Contract, Diagnosis, FileReport, Finding, Skipped, SoftlookupError

EXAMPLES = Path(__file__).parent.parent / "examples"
FINDING = Finding("SL211", "softmax-over-queries", "columns sum to one", line=2, fix="use dim=-1")


def a_report(path, verdict="clean"):
    findings = () if verdict == "clean" else (FINDING,)
    return FileReport(
        path, (Diagnosis("attend", "function", path, 1, Contract(), verdict, findings),), (), "2.13.0"
    )


@pytest.fixture
def target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.py").write_text("def attend(q, k, v):\n    return q\n")
    return "w.py"


@pytest.fixture
def asked(monkeypatch):
    """Replace the checker by one that notes what it is asked and answers what the test sets."""
    calls = []
    fake = types.ModuleType("softlookup.checker.files")
    fake.answer = a_report

    def check_file(path, name=None, **asked):
        calls.append({"path": path, "name": name, **asked})
        return fake.answer(path)

    fake.check_file = check_file
    monkeypatch.setitem(sys.modules, "softlookup.checker.files", fake)
    return types.SimpleNamespace(calls=calls, fake=fake)


def run(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


@pytest.mark.parametrize(
    ("verdict", "status"), [("clean", 0), ("named", 1), ("unrecognised", 1), ("not-callable", 1)]
)
def test_the_exit_status_follows_the_verdict(target, asked, verdict, status):
    asked.fake.answer = lambda path: a_report(path, verdict)
    assert run("check", target).exit_code == status


def test_a_missing_file_is_refused_in_words_with_status_two(asked):
    result = run("check", "no_such_file.py")
    assert result.exit_code == 2
    assert "there is no file 'no_such_file.py'" in result.output
    assert "Traceback" not in result.output
    assert asked.calls == []


def test_an_error_of_ours_is_printed_as_its_words_with_status_two(target, asked):
    def refuse(path):
        raise SoftlookupError("check: nothing to see.", hint="another file")

    asked.fake.answer = refuse
    result = run("check", target)
    assert result.exit_code == 2
    assert "check: nothing to see.\n  try:      another file" in result.stderr
    assert result.stdout == ""


def test_a_file_that_cannot_be_checked_does_not_hide_the_others(target, asked):
    asked.fake.answer = lambda path: a_report(path, "named")
    result = run("check", "no_such_file.py", target)
    assert result.exit_code == 2
    assert "SL211 softmax-over-queries" in result.stdout


def test_a_file_without_attention_is_not_clean(target, asked):
    asked.fake.answer = lambda path: FileReport(path, (), (Skipped("main", 3, "takes no tensors"),))
    result = run("check", target)
    assert result.exit_code == 2
    assert "takes no tensors" in result.stdout


def test_the_name_after_the_colon_is_handed_on(target, asked):
    run("check", f"{target}:Block.attend")
    assert (asked.calls[0]["path"], asked.calls[0]["name"]) == ("w.py", "Block.attend")


def test_without_a_name_everything_is_looked_at(target, asked):
    run("check", target)
    assert asked.calls[0]["name"] is None


def test_a_drive_letter_is_not_split_off():
    assert split_name("C:\\work\\w.py") == ("C:\\work\\w.py", None)
    assert split_name("C:\\work\\w.py:attend") == ("C:\\work\\w.py", "attend")


def test_a_path_with_a_colon_that_exists_is_taken_whole(tmp_path):
    path = tmp_path / "odd:name"
    path.write_text("")
    assert split_name(str(path)) == (str(path), None)


def test_options_become_the_declared_contract(target, asked):
    run(
        "check", target, "--layout", "B T H d", "--mask", "blocked", "--causal", "argument", "--window", "4",
        "--scale", "0.5", "--max-score", "30", "--corner", "bottom-right", "--empty-rows", "zero",
        "--dtype", "bfloat16",
    )  # fmt: skip
    names = {"layout", "mask", "causal", "window", "scale", "max_score", "corner", "empty_rows", "dtype"}
    assert asked.calls[0]["contract"] == Contract(
        layout="B T H d",
        mask="blocked",
        causal="argument",
        window=4,
        scale=0.5,
        max_score=30.0,
        corner="bottom-right",
        empty_rows="zero",
        dtype="bfloat16",
        declared=frozenset(names),
    )


def test_a_device_is_handed_on_only_when_it_is_given(target, asked):
    run("check", target)
    run("check", target, "--device", "cuda")
    assert [call.get("device", "left out") for call in asked.calls] == ["left out", "cuda"]


def test_without_options_nothing_is_declared(target, asked):
    run("check", target)
    assert asked.calls[0]["contract"] == Contract()


def test_the_timeout_is_sixty_seconds_unless_given(target, asked):
    run("check", target)
    run("check", target, "--timeout", "2.5")
    assert [call["timeout"] for call in asked.calls] == [60.0, 2.5]


def test_init_arguments_are_literals_or_bare_words(target, asked):
    run("check", target, "--init", "d_model=32, heads=(2, 4), bias=False, kind=rope")
    assert asked.calls[0]["init"] == {"d_model": 32, "heads": (2, 4), "bias": False, "kind": "rope"}


@pytest.mark.parametrize("text", ["32", "d_model", "d_model=", "a=f(1)", "a=1)+dict(b=2", "**x"])
def test_init_arguments_that_cannot_be_read_are_refused(target, asked, text):
    result = run("check", target, "--init", text)
    assert result.exit_code == 2
    assert "--init could not be read" in result.output
    assert asked.calls == []


@pytest.mark.parametrize(
    "option",
    [["--mask", "perhaps"], ["--window", "0"], ["--timeout", "0"], ["--dtype", "int8"], ["--nonsense"]],
)
def test_a_bad_option_exits_with_two(target, asked, option):
    assert run("check", target, *option).exit_code == 2
    assert asked.calls == []


def test_json_of_one_file_is_one_object(target, asked):
    asked.fake.answer = lambda path: a_report(path, "named")
    data = json.loads(run("check", target, "--format", "json").stdout)
    assert data["file"] == "w.py"
    assert data["targets"][0]["findings"][0]["code"] == "SL211"


def test_json_of_several_files_lists_them_even_when_one_failed(target, asked):
    result = run("check", target, "no_such_file.py", "--format", "json")
    assert [file["file"] for file in json.loads(result.stdout)["files"]] == ["w.py"]
    assert result.exit_code == 2


def test_the_last_line_sums_up_all_files(target, asked):
    asked.fake.answer = lambda path: a_report(path, "named")
    assert run("check", target, target).stdout.splitlines()[-1] == "2 targets, 2 findings"


def test_a_pipe_receives_no_colour_and_no_trailing_blanks(target, asked):
    asked.fake.answer = lambda path: a_report(path, "named")
    text = run("check", target).stdout
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


@pytest.mark.parametrize("way", ["NO_COLOR", "--no-color"])
def test_colour_can_be_switched_off_where_it_would_be_used(monkeypatch, way):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[" in run("explain", "SL211").stdout
    if way == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b" not in run("explain", "SL211").stdout
    else:
        assert "\x1b" not in run("explain", "SL211", "--no-color").stdout


def test_a_source_line_that_the_output_cannot_encode_does_not_stop_the_report(tmp_path):
    code = (
        "import sys, types\n"
        "from softlookup import cli\n"
        "from softlookup.terms import *\n"
        "finding = Finding('SL211', 'softmax-over-queries', 'wrong', line=1)\n"
        "diagnosis = Diagnosis('attend', 'function', 'w.py', 1, Contract(), 'named', (finding,))\n"
        "fake = types.ModuleType('softlookup.checker.files')\n"
        "fake.check_file = lambda path, name, **asked: FileReport(path, (diagnosis,))\n"
        "sys.modules['softlookup.checker.files'] = fake\n"
        "cli.main(['check', 'w.py'])\n"
    )
    (tmp_path / "w.py").write_text("x = 1  # größe ∑\n", encoding="utf-8")
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        encoding="latin-1",
        timeout=60,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "> 1 | x = 1  # größe ?" in done.stdout


@pytest.mark.parametrize("entry", rules(), ids=lambda entry: entry.name)
def test_every_rule_is_explained_by_code_and_by_name(entry):
    by_code, by_name = run("explain", entry.code), run("explain", entry.name)
    assert by_code.exit_code == 0
    assert by_code.stdout == by_name.stdout
    assert by_code.stdout.startswith(f"{entry.code} {entry.name}\n")
    assert "\nFix " in by_code.stdout


def test_an_unknown_rule_is_refused_with_the_nearest_names():
    result = run("explain", "softmax-over-querys")
    assert result.exit_code == 2
    assert "did you mean softmax-over-queries" in result.output


def test_rules_lists_every_rule():
    text = run("rules").stdout
    for entry in rules():
        assert f"{entry.code}  {entry.name}" in text


def command_names():
    return cli.main.list_commands(click.Context(cli.main))


@pytest.mark.parametrize("name", command_names())
def test_a_command_is_called_as_its_file(name):
    assert cli.main.get_command(click.Context(cli.main), name).name == name


def test_help_lists_every_command_with_words_and_imports_none():
    code = (
        "import sys\n"
        "from softlookup.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.startswith('softlookup.commands')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    *page, imported = done.stdout.splitlines()
    listed = dict(line.split(None, 1) for line in page[page.index("Commands:") + 1 :])
    assert list(listed) == command_names()
    assert imported == "[]"


def test_an_unknown_command_has_status_two():
    result = run("no_such_command")
    assert result.exit_code == 2
    assert "no_such_command" in result.stderr


def test_python_dash_m_is_the_same_command():
    done = subprocess.run(
        [sys.executable, "-m", "softlookup", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.startswith("softlookup, version ")


def check_for_real(*arguments, cwd=EXAMPLES):
    return subprocess.run(
        [sys.executable, "-m", "softlookup", "check", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_right_example_is_clean():
    done = check_for_real("attention_shapes_check.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 target, clean")


def test_the_broken_example_is_named_with_its_line():
    done = check_for_real("attention_shapes_check_broken.py", "--format", "json")
    lines = (EXAMPLES / "attention_shapes_check_broken.py").read_text().splitlines()
    wrong = next(number for number, line in enumerate(lines, 1) if "dim=-2" in line)
    data = json.loads(done.stdout)
    (target,) = data["targets"]
    (finding,) = target["findings"]
    assert (finding["code"], finding["line"]) == ("SL211", wrong)
    assert [skipped["name"] for skipped in data["skipped"]] == ["main"]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        ("def attend(q, k, v:\n", 1, "SyntaxError"),
        ("import no_such_package_at_all\ndef attend(q, k, v):\n    return q\n", 1, "no_such_package_at_all"),
        ("def add(a, b):\n    return a + b\n", 2, "no attention was found"),
    ],
    ids=["a syntax error", "a missing import", "no attention"],
)
def test_a_file_that_cannot_be_checked_says_why_without_a_traceback(tmp_path, code, status, words):
    (tmp_path / "w.py").write_text(code)
    done = check_for_real("w.py", cwd=tmp_path)
    everything = done.stdout + done.stderr
    assert done.returncode == status, everything
    assert words in everything
    assert "Traceback" not in everything


def test_a_name_that_the_file_does_not_have_is_refused():
    done = check_for_real("attention_shapes_check.py:no_such_name")
    assert done.returncode in {1, 2}
    assert "no_such_name" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
