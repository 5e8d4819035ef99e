"""Attention modules of public packages are clean: what millions of models run must raise no alarm.

PyTorch's own layer is checked always. The other packages are asked for:

    pip install -e '.[test,packages]' && pytest -m packages tests/test_right_packages.py

The tables are in tests/right_modules/rows_of_*.py: how each module is built, how one calls it, the note that
names its known variant, and what must be declared.
"""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import softlookup

sys.path.append(str(Path(__file__).parent / "right_modules"))
import rows_of_packages
import rows_of_transformers
from row_of_a_package import WIDTH, B, Row, T
from rows_of_pytorch import ANY_TWO, OPTIONS, OTHER_SIZES, PAIRWISE, THE_REST

packages = pytest.mark.packages
IN_PACKAGES = rows_of_transformers.ROWS + rows_of_packages.ROWS


def named(rows: list[Row]) -> list[Any]:
    return [pytest.param(row, id=row.name) for row in rows]


def judged(rows: list[Row]) -> list[Any]:
    """Return the rows; those that are not clean yet must fail, so that none is forgotten here."""
    return [
        pytest.param(
            row,
            id=row.name,
            marks=[pytest.mark.xfail(strict=True, reason=row.blamed_because)] if row.blamed_because else [],
        )
        for row in rows
    ]


def built(row: Row) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = row.build()
    return module.eval() if isinstance(module, nn.Module) else module


def output_of(answer: Any) -> torch.Tensor:
    return answer[0] if isinstance(answer, tuple) else answer


def assert_runs(row: Row) -> None:
    """Assert that the call of a row gives one finite vector for each token, and the same one twice."""
    module = built(row)
    with torch.no_grad():
        first, again = output_of(row.call(module)), output_of(row.call(module))
    assert first.shape == (B, T, WIDTH)
    assert first.isfinite().all()
    assert torch.equal(first, again)


def assert_clean(row: Row) -> None:
    """Assert that the checker finds nothing wrong but a true bug, and names the known variant."""
    diagnosis = softlookup.check(built(row), softlookup.Contract(**row.contract))
    assert diagnosis.named() == ([row.bug] if row.bug else [])
    assert diagnosis.clean == (not row.bug)
    if row.note:
        assert row.note in [note.name for note in diagnosis.notes]


@pytest.mark.parametrize("row", named(PAIRWISE))
def test_multihead_attention_of_pytorch_runs(row):
    assert_runs(row)


@pytest.mark.parametrize("row", named(PAIRWISE + OTHER_SIZES))
def test_multihead_attention_of_pytorch_is_clean(row):
    assert_clean(row)


def test_any_two_options_of_multihead_attention_meet_in_all_four_ways():
    pairs = {(i, j) for i in range(len(OPTIONS)) for j in range(i)}
    met = {(i, j, row[i], row[j]) for row in ANY_TWO for i, j in pairs}
    assert len(met) == 4 * len(pairs)


@packages
@pytest.mark.parametrize("row", named(THE_REST))
def test_multihead_attention_of_pytorch_is_clean_in_every_combination(row):
    assert_clean(row)


@packages
@pytest.mark.parametrize("row", named(IN_PACKAGES))
def test_a_module_of_a_package_runs_as_its_row_says(row):
    assert_runs(row)


@packages
@pytest.mark.parametrize("row", judged(IN_PACKAGES))
def test_a_module_of_a_package_is_clean(row):
    assert_clean(row)
