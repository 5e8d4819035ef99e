"""Right modules, in sixty handwritings, are clean; a known variant is a note with what was measured."""

import pytest
from module_corpus import STYLES, diagnosis_of, diagnosis_of_style, entries
from module_misses import NOTES, RIGHT, listed

MODULES = {entry["file"].partition("_")[0]: entry for entry in entries("right_modules", "expected.json")}
NOTED = {key: entry for key, entry in MODULES.items() if "note" in entry}


@pytest.mark.parametrize("entry", [listed(RIGHT, *pair) for pair in MODULES.items()])
def test_a_right_module_is_clean(entry):
    diagnosis = diagnosis_of(entry, "right_modules")
    assert [(finding.name, finding.summary) for finding in diagnosis.findings] == []


@pytest.mark.parametrize("entry", [listed(RIGHT | NOTES, *pair) for pair in NOTED.items()])
def test_a_known_variant_is_noted(entry):
    assert entry["note"] in [note.name for note in diagnosis_of(entry, "right_modules").notes]


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.stem)
def test_the_right_module_behind_the_mutants_is_clean(style):
    assert diagnosis_of_style(style).named() == []
