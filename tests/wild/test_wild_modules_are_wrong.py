"""Prove the modules of the corpus: each answers wrongly as it stands, and rightly once its one marked line is repaired.

Right is attention with the module's own weights, worked out in plain torch, or, where that says more, what happens
when something is changed that must not matter.
"""

import ast
import json
from pathlib import Path

import pytest
import torch

from repairing import answers_rightly, repaired, source_of
from wild_module_repairs import REPAIRS

HERE = Path(__file__).parent
EXPECTED = {
    entry["id"]: entry for entry in json.loads((HERE / "expected_modules.json").read_text(encoding="utf-8"))
}


def made(source, report):
    """Return the target of a file, made with the arguments of its repair, in eval mode."""
    scope = {"__name__": "wild_module"}
    exec(compile(source, report, "exec", dont_inherit=True), scope)
    arguments = REPAIRS[report][1]
    torch.manual_seed(0)
    return scope[EXPECTED[report]["target"]](
        **(arguments(scope) if callable(arguments) else arguments)
    ).eval()


@pytest.fixture(params=sorted(REPAIRS))
def report(request):
    return request.param


def test_every_expected_module_has_a_repair():
    assert set(REPAIRS) == set(EXPECTED)


def test_the_module_answers_wrongly_as_it_stands(report):
    assert not answers_rightly(made(source_of(EXPECTED[report]), report), REPAIRS[report][2])


def test_the_module_answers_rightly_once_the_marked_line_is_repaired(report):
    assert REPAIRS[report][2](made(repaired(EXPECTED[report], REPAIRS[report][0]), report))


def test_the_file_marks_one_line_and_names_its_report(report):
    source = source_of(EXPECTED[report])
    doc = ast.get_docstring(ast.parse(source))
    assert source.count("# bug") == 1
    assert doc.startswith(f"Report {report}: https://")
    assert "What is wrong: " in doc


def test_an_entry_says_why_and_accepts_another_name_or_line_only_beside_its_own(report):
    entry = EXPECTED[report]
    assert set(entry) <= {"id", "file", "target", "expect", "accept", "contract", "init", "why", "or_line"}
    assert entry["why"]
    assert entry["expect"] not in entry.get("accept", ())
    lines = [line.strip() for line in source_of(EXPECTED[report]).splitlines()]
    assert "or_line" not in entry or lines.count(entry["or_line"]) == 1


def test_the_target_is_one_of_at_most_a_few_classes_and_the_last_one(report):
    classes = [node.name for node in ast.parse(source_of(EXPECTED[report])).body if isinstance(node, ast.ClassDef)]
    assert classes[-1] == EXPECTED[report]["target"]
    assert len(classes) <= 3
