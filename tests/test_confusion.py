"""The measured tables (docs/reference/confusion.md, kill-table.md) cover every rule and every mutant.

They take minutes to measure: `python scripts/write_confusion.py`. Here only what they cover is compared, and
which rules answer alike, which is computed again.
"""

import json
import sys
from pathlib import Path

import pytest

from softlookup import catalog

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "scripts"))
import write_confusion  # noqa: E402
from draw_kill_table import rows_missing  # noqa: E402


def test_the_measured_tables_cover_every_rule_and_every_mutant():
    assert write_confusion.drifted() == [], "run: python scripts/write_confusion.py"


def test_every_rule_that_a_function_shows_has_a_row_in_the_confusion_table():
    data = json.loads(write_confusion.DATA.read_text(encoding="utf-8"))
    shown = {mutant.entry.name for mutant in write_confusion.mutants()}  # the others take a module
    assert list(data["rules"]) == [entry.name for entry in catalog.rules() if entry.name in shown]
    page = write_confusion.PAGE.read_text(encoding="utf-8")
    assert all(
        f"| {entry.code} | `{entry.name}` |" in page for entry in catalog.rules() if entry.name in shown
    )


@pytest.mark.parametrize("left_out", ["| `scale-missing` | loops |", "| `softmax-twice` | einsum_bhtd |"])
def test_a_mutant_without_a_row_in_the_kill_table_is_noticed(left_out):
    page = write_confusion.KILLS.read_text(encoding="utf-8")
    rest = "\n".join(line for line in page.splitlines() if not line.startswith(left_out))
    assert rows_missing(rest) == [left_out]


def test_a_rule_that_answers_as_another_is_noticed(monkeypatch):
    monkeypatch.setattr(write_confusion, "alike", lambda: [["scale-missing", "softmax-twice"]])
    assert write_confusion.drifted() == ["confusion.md: other rules answer alike now"]
