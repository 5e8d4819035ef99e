"""Prove the corpus itself: each file answers wrongly as it stands, and rightly once its one marked line is repaired.

So nothing else in a file is wrong, and a checker that names something else there is mistaken.
"""

import ast
import json
from pathlib import Path

import pytest
from repairing import answers_rightly, repaired, source_of
from wild_repairs import REPAIRS

HERE = Path(__file__).parent
EXPECTED = {entry["id"]: entry for entry in json.loads((HERE / "expected.json").read_text(encoding="utf-8"))}


def load(source, name):
    scope = {"__name__": "wild"}
    exec(compile(source, name, "exec"), scope)
    target = scope[EXPECTED[name]["target"]]
    return target() if isinstance(target, type) else target


@pytest.fixture(params=sorted(REPAIRS))
def report(request):
    return request.param


def test_every_expected_file_has_a_repair_and_every_file_is_expected():
    assert set(REPAIRS) == set(EXPECTED)
    modules = json.loads((HERE / "expected_modules.json").read_text(encoding="utf-8"))
    known = [*EXPECTED.values(), *modules]
    assert sorted(path.name for path in HERE.glob("b*.py")) == sorted(entry["file"] for entry in known)


def test_the_file_answers_wrongly_as_it_stands(report):
    assert not answers_rightly(load(source_of(EXPECTED[report]), report), REPAIRS[report][1])


def test_the_file_answers_rightly_once_the_marked_line_is_repaired(report):
    assert REPAIRS[report][1](load(repaired(EXPECTED[report], REPAIRS[report][0]), report))


def test_the_file_marks_one_line_and_names_its_report(report):
    source = source_of(EXPECTED[report])
    doc = ast.get_docstring(ast.parse(source))
    assert source.count("# bug") == 1
    assert doc.startswith(f"Report {report}: https://")
    assert "What is wrong: " in doc
