"""`[tool.softlookup]` of pyproject.toml: what it says, where it is found, and what it refuses."""

import re
from pathlib import Path

import pytest

from softlookup.configuration import Configuration, nearest, overlaid
from softlookup.report.forms import FORMS
from softlookup.terms import Contract, SoftlookupError


@pytest.fixture
def configured(tmp_path, monkeypatch):
    """Return a function that writes pyproject.toml in the current folder and reads it back."""
    monkeypatch.chdir(tmp_path)

    def write(text):
        Path("pyproject.toml").write_text(text, encoding="utf-8")
        return nearest(["."])

    return write


def refusal(configured, text):
    with pytest.raises(SoftlookupError) as raised:
        configured(text)
    return str(raised.value)


def test_everything_that_can_be_said_is_read(configured, tmp_path):
    read = configured(
        "[tool.softlookup]\n"
        'select = ["SL2", "mask-inverted"]\n'
        'ignore = ["SL211"]\n'
        'exclude = ["old"]\n'
        "timeout = 5\n"
        'format = "sarif"\n'
        '[tool.softlookup.contracts."src/model.py:Attention"]\n'
        'mask = "blocked"\n'
        "window = 4\n"
        "scale = 1\n"
        "self_visible = false\n"
        "init = {d_model = 32, heads = [2, 4]}\n"
    )
    assert read.root == str(tmp_path)
    assert (read.selection.select, read.selection.ignore) == (("SL2", "mask-inverted"), ("SL211",))
    assert read.exclusion.patterns == ("old",)
    assert (read.timeout, read.form) == (5.0, "sarif")
    declared = read.declared("src/model.py", "Attention")
    assert declared.init == {"d_model": 32, "heads": [2, 4]}
    assert declared.contract == Contract(
        mask="blocked",
        window=4,
        scale=1.0,
        self_visible=False,
        declared=frozenset({"mask", "window", "scale", "self_visible"}),
    )
    assert isinstance(declared.contract.scale, float)


def test_without_a_configuration_nothing_is_said(configured):
    assert configured("[tool.other]\nselect = 3\n") == Configuration()


def test_the_nearest_file_that_speaks_of_us_counts(configured, tmp_path):
    configured("[tool.softlookup]\ntimeout = 5\n")
    folder = tmp_path / "package" / "src"
    folder.mkdir(parents=True)
    (tmp_path / "package" / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    assert nearest([str(folder)]).timeout == 5.0
    (tmp_path / "package" / "pyproject.toml").write_text("[tool.softlookup]\ntimeout = 7\n")
    assert nearest([str(folder)]).timeout == 7.0
    assert nearest([str(folder), str(tmp_path / "other.py")]).timeout == 5.0  # what both lie in


def test_a_target_is_found_from_any_folder(configured, monkeypatch):
    configured('[tool.softlookup.contracts."src/model.py"]\nmask = "allowed"\n')
    Path("src").mkdir()
    monkeypatch.chdir("src")
    assert nearest(["model.py"]).declared("model.py", "Attention").contract.mask == "allowed"


@pytest.mark.parametrize(
    ("target", "covered"),
    [
        ("src/model.py", True),
        ("src/model.py:Attention", True),
        ("src/*.py:*Attention", True),
        ("*:Attention", True),
        ("src/other.py", False),
        ("src/model.py:attention", False),
        ("model.py", False),
    ],
)
def test_globs_say_which_targets_are_meant(configured, target, covered):
    read = configured(f'[tool.softlookup.contracts."{target}"]\nmask = "allowed"\n')
    assert (read.declared("src/model.py", "Attention").contract.mask == "allowed") is covered


def test_entries_add_up_and_the_later_wins(configured):
    read = configured(
        '[tool.softlookup.contracts."*"]\nmask = "allowed"\ncausal = "none"\ninit = {a = 1, b = 1}\n'
        '[tool.softlookup.contracts."m.py:F"]\nmask = "blocked"\ninit = {b = 2}\n'
    )
    declared = read.declared("m.py", "F")
    assert (declared.contract.mask, declared.contract.causal) == ("blocked", "none")
    assert declared.contract.declared == {"mask", "causal"}
    assert declared.init == {"a": 1, "b": 2}


def test_what_is_declared_above_replaces_only_what_it_names():
    below = Contract(mask="allowed", window=4, declared=frozenset({"mask", "window"}))
    above = Contract(mask="blocked", declared=frozenset({"mask"}))
    both = overlaid(below, above)
    assert (both.mask, both.window, both.declared) == ("blocked", 4, {"mask", "window"})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.softlookup]\nselct = []\n", "did you mean select"),
        ('[tool.softlookup.contracts."m.py"]\nmaks = "allowed"\n', "did you mean mask"),
        ('[tool.softlookup.contracts."m.py"]\ndeclared = ["mask"]\n', "has no 'declared'"),
        ('[tool.softlookup.contracts."m.py"]\nmask = "perhaps"\n', "one of allowed, blocked, additive, none"),
        ('[tool.softlookup.contracts."m.py"]\nwindow = true\n', "a whole number"),
        ('[tool.softlookup.contracts."m.py"]\nwindow = 4.5\n', "a whole number"),
        ('[tool.softlookup.contracts."m.py"]\nscale = "1"\n', "a number"),
        ('[tool.softlookup.contracts."m.py"]\nself_visible = 1\n', "true or false"),
        ('[tool.softlookup.contracts."m.py"]\nlayout = 4\n', "a text"),
        ('[tool.softlookup.contracts."m.py"]\ninit = "a=1"\n', "a table such as"),
        ('[tool.softlookup.contracts]\n"m.py" = 3\n', "fields of a contract"),
        ("[tool.softlookup]\ncontracts = 3\n", "tables such as"),
        ('[tool.softlookup]\nselect = ["softmax-over-querys"]\n', "did you mean softmax-over-queries"),
        ('[tool.softlookup]\nignore = "SL2"\n', "a list of texts"),
        ("[tool.softlookup]\nexclude = [3]\n", "a list of texts"),
        ("[tool.softlookup]\ntimeout = 0\n", "more than 0"),
        ('[tool.softlookup]\ntimeout = "5"\n', "a number"),
        ('[tool.softlookup]\nformat = "xml"\n', ", ".join(FORMS)),
        ("[tool.softlookup\n", "a TOML file"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_words(configured, text, words):
    message = refusal(configured, text)
    assert words in message
    assert re.match(r"configuration: |\[tool\.softlookup\]", message)


def test_the_message_names_the_table_in_which_it_stands(configured):
    message = refusal(configured, '[tool.softlookup.contracts."m.py:F"]\nmask = "perhaps"\n')
    assert '[tool.softlookup.contracts."m.py:F"] mask' in message
    assert "got:      'perhaps'" in message
