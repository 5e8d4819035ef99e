"""The documents say what the code does: generated pages, examples in docstrings and in Markdown, links."""

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest

import softlookup
from softlookup.catalog import find_rule, rules
from softlookup.learn.exercise import all_exercises
from softlookup.report.rule_page import PARTS

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MODULES = sorted(
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
    for path in (ROOT / "src").rglob("*.py")
    if path.stem not in {"__main__", "child"}  # these two are programs
)

#: Modules whose examples call a library that the tests can do without.
CALLS_ANOTHER = {"softlookup.live.transformers_attention": "transformers"}


def named(path):
    return path.relative_to(ROOT).as_posix()


def blocks(path, language):
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M)


def test_generated_documents_have_not_drifted_from_the_code():
    from write_docs import documents

    drifted = [
        named(path)
        for path, text in documents()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    assert not drifted, "run: python scripts/write_docs.py"


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module):
    if module in CALLS_ANOTHER:
        pytest.importorskip(CALLS_ANOTHER[module], reason="its examples call a library that is not installed")
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.failed == 0


@pytest.mark.parametrize("name", softlookup.__all__)
def test_every_public_function_shows_a_runnable_example(name):
    thing = getattr(softlookup, name)
    if inspect.isfunction(thing):
        assert ">>>" in (thing.__doc__ or ""), f"{name} has no example"
    assert inspect.getdoc(thing), f"{name} has no docstring"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name
)
def test_python_in_documents_runs(page, monkeypatch, tmp_path):
    from write_tutorial import PAGES, with_outputs

    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    now = with_outputs(text, page.stem)
    if page in PAGES:
        assert now == text, "what the blocks print has changed; run: python scripts/write_tutorial.py"


def test_the_picture_of_the_tutorial_shows_what_is_measured():
    from draw_variance import PICTURE, measured, picture

    before, after = measured()
    assert abs(before.var() - 64) < 6
    assert abs(after.var() - 1) < 0.1
    assert PICTURE.read_text(encoding="utf-8") == picture(), "run: python scripts/write_tutorial.py"


@pytest.mark.parametrize("exercise", all_exercises(), ids=lambda it: it.name)
def test_the_page_of_a_lesson_lists_its_exercises(exercise):
    lesson = exercise.lesson
    page = ROOT / "docs" / "tutorial" / f"{lesson.number}-{lesson.name}.md"
    assert f"\n- {exercise.place} `{exercise.name}`, {exercise.kind} it" in page.read_text(encoding="utf-8")


def test_the_site_leads_to_every_page_and_to_no_other():
    _, _, nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")
    listed = re.findall(r"(\S+\.md)$", nav, re.M)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_inside_the_repository_lead_somewhere(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_rules_that_a_page_asks_to_explain_exist(page):
    for name in re.findall(r"softlookup explain ([a-z][a-z0-9-]+)", page.read_text(encoding="utf-8")):
        assert find_rule(name)


@pytest.mark.parametrize("entry", rules(), ids=lambda entry: entry.name)
def test_the_page_of_a_rule_says_why_it_is_missed_what_it_does_and_how_to_fix_it(entry):
    missing = [title for title in (*PARTS, "Seen in") if not entry.part(title)]
    assert not missing
    assert entry.summary.endswith(".")


def test_the_readme_has_exactly_two_commands():
    commands = blocks(ROOT / "README.md", "bash")
    assert len(commands) == 2
    assert all(command.count("\n") == 1 for command in commands), "each is one line"
    assert all(command.startswith("python3 -m venv .venv && ") for command in commands)


def test_the_readme_checks_both_examples_and_their_files_exist():
    first, _ = blocks(ROOT / "README.md", "bash")
    for example in ("examples/attention_shapes_check.py", "examples/attention_shapes_check_broken.py"):
        assert example in first
        assert (ROOT / example).exists()


def test_the_readme_shows_a_picture_that_is_there():
    (picture,) = re.findall(r"!\[[^\]]+\]\((\S+)\)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert (ROOT / picture).read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize("file", [*PAGES, ROOT / "Makefile", ROOT / ".ci" / "run"], ids=named)
def test_what_people_run_names_no_package_index_and_no_folder_of_ours(file):
    text = file.read_text(encoding="utf-8")
    found = re.findall(r"index-url|pypi\.org|download\.pytorch|/home/|/root/|/work/|/tmp/", text)
    assert not found
