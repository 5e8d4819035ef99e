"""`softlookup check` as people run it: the real command, its child process, its exit status and its JSON."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from checker_corpus import bug_line, diagnosis_of, entries

ROOT = Path(__file__).parent.parent
RIGHT = "examples/attention_shapes_check.py"
BROKEN = "examples/attention_shapes_check_broken.py"
SARIF = ROOT / "tests" / "data" / "sarif-2.1.0-rtm.5.json"
WILD = {entry["id"]: entry for entry in entries("wild")}

# The JSON that other tools read. Keys may be added at the end, never moved, renamed or dropped.
FILE_KEYS = ["softlookup", "torch", "file", "targets"]
TARGET_KEYS = ["name", "kind", "line", "contract", "verdict", "findings", "notes"]
CONTRACT_KEYS = ["layout", "mask", "causal", "returns", "empty_rows", "scale"]
FINDING_KEYS = ["code", "name", "line", "summary", "fix", "evidence"]
NOTE_KEYS = ["code", "name", "summary"]
VALUES = {
    "kind": {"function", "module", "cross"},
    "verdict": {"clean", "named", "unrecognised", "not-callable"},
    "mask": {"allowed", "blocked", "additive", "none"},
    "causal": {"argument", "built-in", "none"},
    "returns": {"output", "output, weights", "weights, output", "dict"},
}


def check(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "softlookup", "check", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done


def check_json(*arguments):
    done = check(*arguments, "--format", "json")
    return json.loads(done.stdout), done.returncode


def assert_stable(file):
    """Compare the object of one file with the promised shape."""
    assert list(file)[: len(FILE_KEYS)] == FILE_KEYS
    for target in file["targets"]:
        assert list(target) == TARGET_KEYS
        assert list(target["contract"])[: len(CONTRACT_KEYS)] == CONTRACT_KEYS
        unknown = {None} if target["verdict"] == "not-callable" else set()
        for name, allowed in VALUES.items():
            assert (target | target["contract"])[name] in allowed | unknown
        assert all(list(finding) == FINDING_KEYS for finding in target["findings"])
        assert all(list(note) == NOTE_KEYS for note in target["notes"])


def test_a_right_file_is_clean_with_status_zero():
    done = check(RIGHT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("1 target, clean")


def test_one_finding_among_several_files_is_shown_with_its_line_and_status_one():
    done = check(RIGHT, BROKEN)
    lines = (ROOT / BROKEN).read_text().splitlines()
    wrong = next(number for number, line in enumerate(lines, 1) if "dim=-2" in line)
    assert done.returncode == 1, done.stderr
    assert "SL211 softmax-over-queries" in done.stdout
    assert f"> {wrong} | " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 targets, 1 finding")


def test_json_of_several_files_keeps_its_shape():
    data, status = check_json(RIGHT, BROKEN)
    assert [file["file"] for file in data["files"]] == [RIGHT, BROKEN]
    assert [file["targets"][0]["verdict"] for file in data["files"]] == ["clean", "named"]
    assert status == 1
    for file in data["files"]:
        assert_stable(file)


def test_sarif_of_a_folder_fits_its_schema_and_holds_what_json_holds(tmp_path):
    done = check("examples", "--format", "sarif", "--output", tmp_path / "a.sarif")
    assert done.returncode == 1, done.stderr
    log = json.loads((tmp_path / "a.sarif").read_text(encoding="utf-8"))
    jsonschema.Draft4Validator(json.loads(SARIF.read_text(encoding="utf-8"))).validate(log)
    found = [
        (result["ruleId"], result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        for result in log["runs"][0]["results"]
        if result["level"] == "error"
    ]
    assert found == [("SL211", BROKEN)]


def test_the_page_of_a_folder_is_one_file_with_both_verdicts(tmp_path):
    check("examples", "--format", "html", "--output", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "clean" in page
    assert "softmax-over-queries" in page


#: A mask, a class, a declared range of scores, a target that cannot run.
@pytest.mark.parametrize("report", ["b011", "b024", "b020", "b037"])
def test_the_command_says_what_the_library_says(report):
    entry = WILD[report]
    options = [
        word for name, value in entry["contract"].items() for word in (f"--{name.replace('_', '-')}", value)
    ]
    data, status = check_json(f"tests/wild/{entry['file']}:{entry['target']}", *options)
    (target,) = data["targets"]
    here = diagnosis_of(entry, "wild")
    assert_stable(data)
    assert [finding["name"] for finding in target["findings"]] == here.named()
    assert target["findings"][0]["line"] == bug_line(ROOT / "tests" / "wild" / entry["file"])
    assert (target["name"], target["verdict"]) == (entry["target"], here.verdict)
    assert status == 1


def test_a_file_without_attention_has_status_two_and_says_what_it_saw(tmp_path):
    (tmp_path / "sums.py").write_text("def add(a, b):\n    return a + b\n")
    done = check(tmp_path / "sums.py")
    assert done.returncode == 2
    assert "no attention was found" in done.stderr
    assert "add (line 1)" in done.stderr


def test_a_name_that_the_file_does_not_have_has_status_two_and_is_shown_the_names_it_has():
    done = check(f"{RIGHT}:no_such_name")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "no_such_name" in done.stderr
    assert "scaled_dot_product_attention" in done.stderr


def test_a_file_that_does_not_exist_has_status_two_and_does_not_hide_the_others(tmp_path):
    done = check(tmp_path / "nowhere.py", BROKEN)
    assert done.returncode == 2
    assert "there is no file" in done.stderr
    assert "SL211 softmax-over-queries" in done.stdout


def test_a_syntax_error_is_not_callable_with_the_reason(tmp_path):
    (tmp_path / "half.py").write_text("def attend(q, k, v:\n    return q\n")
    data, status = check_json(tmp_path / "half.py")
    (target,) = data["targets"]
    (finding,) = target["findings"]
    assert (finding["code"], target["verdict"], status) == ("SL001", "not-callable", 1)
    assert "SyntaxError" in finding["summary"]


def test_a_bad_option_has_status_two():
    done = check(RIGHT, "--layout", "B T H d", "--mask", "perhaps")
    assert done.returncode == 2
    assert "perhaps" in done.stderr
