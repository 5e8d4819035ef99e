"""Rotary positions whose rates follow no table: bugs beside them are named, a wrong turn is never clean."""

import inspect
from pathlib import Path

import pytest
from checker_corpus import load
from torch import nn

from softlookup.checker.constructing import instance_of
from softlookup.checker.diagnose import declared, examine
from softlookup.checker.target import LocalTarget
from softlookup.terms import Contract

RIGHT = Path(__file__).parent / "right_modules"
INTERPOLATED = "m62_rotary_positions_interpolated"
YARN = "m63_rotary_yarn"
SMOOTHED = "m64_rotary_smoothed_by_wavelength"
ROWS_AND_COLUMNS = "m66_rotary_rows_and_columns"

#: What no rotation by positions does, in files that are right before: file, what is replaced by what.
TURNED_WRONG = {
    "values turn as well": (SMOOTHED, "self.rotate(k), v,", "self.rotate(k), self.rotate(v),"),
    "one table grows and the other does not": (YARN, "angles.sin() * self.attention_factor", "angles.sin()"),
}

#: rule -> file, what is replaced by what.
NAMED_BESIDE = {
    "scale-missing": (ROWS_AND_COLUMNS, " * self.dim_head**-0.5", ""),
    "causal-dropped-with-mask": (YARN, "allowed & attention_mask", "attention_mask"),
    "rope-wrong-axis": (
        INTERPOLATED,
        "self.rotate(q), self.rotate(k)",
        "*(self.rotate(t.transpose(1, 2)).transpose(1, 2) for t in (q, k))",
    ),
}


def diagnosis_of(change, folder):
    """Return the diagnosis of a right file with one change."""
    file, old, new = change
    text = (RIGHT / f"{file}.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    path = folder / f"{file}.py"
    path.write_text(text.replace(old, new), encoding="utf-8")
    own = [it for it in vars(load(path)).values() if inspect.isclass(it) and issubclass(it, nn.Module)]
    cls = own[-1]
    return examine(LocalTarget(instance_of(cls, {}), cls.__name__), declared(Contract()))


@pytest.mark.parametrize("change", TURNED_WRONG.values(), ids=TURNED_WRONG)
def test_what_is_no_rotation_by_positions_is_not_clean(change, tmp_path):
    diagnosis = diagnosis_of(change, tmp_path)
    assert diagnosis.named()
    assert "rotary-positions" not in {note.name for note in diagnosis.notes}


@pytest.mark.parametrize("rule", NAMED_BESIDE)
def test_a_bug_beside_measured_rotations_gets_its_name(rule, tmp_path):
    assert diagnosis_of(NAMED_BESIDE[rule], tmp_path).named() == [rule]
