"""``softlookup lint``: what it reads, what it prints, how comments and options silence it, how it ends."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from softlookup import cli
from softlookup.lint.discover import lints

WRONG = """import torch.nn.functional as F


class Attention:
    def forward(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)
"""
RIGHT = WRONG.replace("self.dropout)", "self.dropout if self.training else 0.0)")


def run(*arguments):
    return CliRunner().invoke(cli.main, ["lint", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wrong.py").write_text(WRONG)
    (tmp_path / "right.py").write_text(RIGHT)
    return tmp_path


def test_a_hit_is_shown_with_its_place_its_line_and_what_to_do(folder):
    result = run("wrong.py")
    assert result.exit_code == 1
    assert "wrong.py:6:66  SL801 dropout-not-gated" in result.stdout
    assert "> return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)" in result.stdout
    assert "fix   dropout_p=self.dropout if self.training else 0.0" in result.stdout
    assert "softlookup explain dropout-in-eval" in result.stdout
    assert result.stdout.splitlines()[-1] == "1 hit in 1 file"


def test_no_hit_is_status_zero(folder):
    result = run("right.py")
    assert (result.exit_code, result.stdout) == (0, "0 hits in 1 file\n")


def test_a_folder_is_read_whole_without_hidden_files_and_tests(folder):
    for name in (".hidden", "tests", "deep"):
        (folder / name).mkdir()
        (folder / name / "w.py").write_text(WRONG)
    result = run(".")
    assert "2 hits in 3 files" in result.stdout
    assert "deep/w.py:6" in result.stdout


def test_what_the_project_excludes_is_left_out(folder):
    (folder / "pyproject.toml").write_text('[tool.softlookup]\nexclude = ["wrong.py"]\n')
    assert run(".").exit_code == 0


def test_a_file_that_is_named_is_read_wherever_it_lies(folder):
    (folder / "tests").mkdir()
    (folder / "tests" / "w.py").write_text(WRONG)
    assert run("tests/w.py").exit_code == 1


def test_a_path_that_is_not_there_is_refused_in_words(folder):
    result = run("nowhere")
    assert result.exit_code == 2
    assert "there is no file or folder 'nowhere'" in result.stderr


def test_no_path_is_refused_in_words():
    result = run()
    assert result.exit_code == 2
    assert "softlookup lint src" in result.stderr


def test_a_file_that_is_no_python_is_skipped_with_the_reason(folder):
    (folder / "broken.py").write_text("F.softmax(scores\n")
    result = run(".")
    assert result.exit_code == 1
    assert "broken.py: skipped, no Python of this version" in result.stdout
    assert "1 skipped" in result.stdout


def test_a_file_in_another_encoding_is_read_as_it_says(folder):
    text = "# -*- coding: latin-1 -*-\n# d\xe9j\xe0 vu\n" + WRONG
    (folder / "old.py").write_bytes(text.encode("latin-1"))
    assert "old.py:8:66" in run("old.py").stdout


def test_when_nothing_could_be_read_the_status_is_two(folder):
    (folder / "broken.py").write_text("F.softmax(scores\n")
    assert run("broken.py").exit_code == 2


@pytest.mark.parametrize("comment", ["", "[SL801]", "[dropout-not-gated]", "[dropout-in-eval]"])
def test_a_comment_silences_its_line_and_is_counted(folder, comment):
    line = "        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)"
    (folder / "wrong.py").write_text(WRONG.replace(line, f"{line}  # softlookup: ignore{comment}"))
    result = run("wrong.py")
    assert (result.exit_code, result.stdout) == (0, "0 hits in 1 file, 1 silenced\n")


def test_a_comment_that_names_another_lint_silences_nothing(folder):
    (folder / "wrong.py").write_text(
        WRONG.replace("self.dropout)", "self.dropout)  # softlookup: ignore[SL106]")
    )
    assert run("wrong.py").exit_code == 1


@pytest.mark.parametrize("word", ["SL801", "sl8", "dropout-not-gated", "dropout-in-eval"])
def test_lints_are_selected_and_ignored_by_code_beginning_and_name(folder, word):
    assert run("wrong.py", "--select", word).exit_code == 1
    assert run("wrong.py", "--ignore", word).exit_code == 0


def test_a_lint_that_is_off_by_default_runs_when_it_is_selected(folder, monkeypatch):
    lint = next(it for it in lints() if it.name == "dropout-not-gated")
    monkeypatch.setitem(lint.__dict__, "by_default", False)
    assert run("wrong.py").exit_code == 0
    assert run("wrong.py", "--select", "SL801").exit_code == 1
    assert "dropout-not-gated (off unless selected)" in run("--list").stdout


def test_hits_come_in_the_order_of_their_lines(folder):
    (folder / "two.py").write_text(WRONG + "\n\ndef fill(scores, mask):\n    scores.masked_fill(mask, 0.0)\n")
    lines = [it["line"] for it in json.loads(run("two.py", "--format", "json").stdout)["hits"]]
    assert lines == [6, 10]


def test_what_is_not_selected_does_not_run(folder):
    assert run("wrong.py", "--select", "SL1,softmax-without-dim").exit_code == 0


def test_a_word_that_chooses_nothing_is_refused_with_what_is_near(folder):
    result = run("wrong.py", "--select", "dropout-not-gatd")
    assert result.exit_code == 2
    assert "did you mean dropout-not-gated" in result.stderr


def test_json_holds_every_hit(folder):
    (folder / "broken.py").write_text("F.softmax(scores\n")
    whole = json.loads(run(".", "--format", "json").stdout)
    assert whole["files"] == 3
    (hit,) = whole["hits"]
    place = {name: hit[name] for name in ("file", "line", "column", "code", "name", "lint", "within")}
    assert place == {
        "file": "wrong.py",
        "line": 6,
        "column": 66,
        "code": "SL801",
        "name": "dropout-in-eval",
        "lint": "dropout-not-gated",
        "within": "Attention.forward",
    }
    assert hit["summary"]
    assert hit["fix"]
    assert [it["file"] for it in whole["skipped"]] == ["broken.py"]
    assert whole["silenced"] == 0


def test_github_gets_one_line_a_hit(folder):
    (line,) = run("wrong.py", "--format", "github").stdout.splitlines()
    assert line.startswith("::error file=wrong.py,line=6,title=SL801 dropout-in-eval::")


def test_sarif_holds_the_hit_with_its_rule(folder):
    log = json.loads(run("wrong.py", "--format", "sarif").stdout)
    (result,) = log["runs"][0]["results"]
    assert result["ruleId"] == "SL801"
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] == 6


def test_sarif_without_a_hit_is_still_a_log(folder):
    assert json.loads(run("right.py", "--format", "sarif").stdout)["runs"][0]["results"] == []


def test_the_list_names_every_lint():
    listed = run("--list").stdout
    assert "SL801 dropout-not-gated:" in listed
    assert "SL106 key-padding-mask-marks-tokens:" in listed


def test_many_files_on_several_processes_give_the_same_as_one_by_one(folder):
    for number in range(120):
        (folder / f"m{number:03}.py").write_text(WRONG if number % 2 else RIGHT)
    hits = json.loads(run(".", "--format", "json").stdout)["hits"]
    assert [it["file"] for it in hits] == [f"m{n:03}.py" for n in range(1, 120, 2)] + ["wrong.py"]


def test_the_file_is_not_run_and_torch_stays_out(folder):
    (folder / "loud.py").write_text("print('it runs')\nraise SystemExit(3)\n" + WRONG)
    code = (
        "import sys\nfrom softlookup.cli import main\n"
        "try: main(['lint', 'loud.py'])\nexcept SystemExit as end: print(end.code)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "it runs" not in done.stdout
    assert done.stdout.splitlines()[-2:] == ["1", "False"]
