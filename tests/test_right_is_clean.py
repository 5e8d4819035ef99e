"""Right attention, in eighty spellings, is clean; where a convention is worth knowing it is a note."""

import pytest
from checker_corpus import diagnosis_of, entries

RIGHT = [pytest.param(entry, id=entry["file"][:3]) for entry in entries("right")]
NOTED = [pytest.param(entry, id=entry["file"][:3]) for entry in entries("right") if "note" in entry]


@pytest.mark.parametrize("dtype", [None, "bfloat16"], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("entry", RIGHT)
def test_right_attention_is_clean(entry, dtype):
    diagnosis = diagnosis_of(entry, "right", dtype)
    assert diagnosis.named() == []
    assert diagnosis.clean


@pytest.mark.parametrize("entry", NOTED)
def test_a_convention_is_noted_and_is_no_finding(entry):
    assert entry["note"] in [note.name for note in diagnosis_of(entry, "right").notes]
