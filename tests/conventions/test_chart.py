"""The chart of conventions holds: what it says is measured again in every library that is installed."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from softlookup.conventions import conventions

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
from asking_libraries import ContradictionError
from measure_conventions import can_be_asked, corner, entries, facts, shapes, versions, window
from write_conventions import conventions_page, measured, read_facts

COMMITTED = read_facts()
CONVENTIONS = {it.name: it for it in conventions()}
SDPA = CONVENTIONS["F.scaled_dot_product_attention"]
AGAIN = "run: python scripts/write_conventions.py"


def test_the_chart_has_every_convention_and_no_other():
    assert set(COMMITTED) == set(CONVENTIONS), AGAIN


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_libraries_still_do_what_the_chart_says(name):
    convention = CONVENTIONS[name]
    if not can_be_asked(convention):
        pytest.skip(f"not installed: {', '.join(convention.needs)}")
    said, now = dict(COMMITTED.get(name, {})), facts(convention)
    then, today = said.pop("measured_with", None), now.pop("measured_with")
    assert now == said, f"{AGAIN} (the chart: {then}, here: {today})"


@pytest.mark.parametrize("name", CONVENTIONS)
def test_only_what_was_called_has_versions(name):
    called = CONVENTIONS[name].run is not None
    assert (COMMITTED[name]["measured_with"] is not None) == called
    assert (COMMITTED[name]["empty_rows"] is not None) == called


def test_what_is_not_installed_keeps_its_facts(monkeypatch):
    monkeypatch.setattr("write_conventions.can_be_asked", lambda convention: convention is SDPA)
    monkeypatch.setattr("write_conventions.facts", lambda convention: {"measured": "now"})
    now = measured({name: {"measured": "before"} for name in ("mlx", SDPA.name)})
    assert now == {SDPA.name: {"measured": "now"}, "mlx": {"measured": "before"}}


def test_every_convention_has_a_row_that_leads_to_its_section():
    page = conventions_page(COMMITTED)
    for name in CONVENTIONS:
        assert row_of(name)
        assert f"\n## {name}\n" in page


def row_of(name):
    lines = conventions_page(COMMITTED).replace("<wbr>", "").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| [{name}](#")]
    return row


def test_a_row_that_was_read_says_so():
    for name, it in CONVENTIONS.items():
        assert ("read, not run" in row_of(name)) == (it.run is None and it.words != "softlookup")


# The measuring notices what is wrong


def test_a_declared_meaning_that_the_library_contradicts_is_no_fact():
    upside_down = tuple(replace(it, meaning="blocked") for it in SDPA.takes)
    with pytest.raises(ContradictionError, match="measured as 'allowed'"):
        entries(replace(SDPA, takes=upside_down))


def test_a_declared_shape_that_the_library_refuses_is_no_fact():
    with pytest.raises(ContradictionError, match="takes B T_k, measured: refused"):
        shapes(replace(SDPA, takes=(replace(SDPA.takes[0], shapes=("B T_k",)),)))


def test_a_flag_that_is_read_with_the_wrong_corner_is_no_fact():
    from softlookup.conventions.spelling import Reading
    from softlookup.masks import causal

    wrong = replace(SDPA, read=lambda arguments, sizes: Reading(causal("bottom-right")))
    with pytest.raises(ContradictionError, match="is read as"):
        corner(wrong)


def test_a_window_is_told_by_the_keys_that_are_seen():
    from softlookup.conventions.spelling import Reading
    from softlookup.masks import sliding_window

    read_only = replace(SDPA, run=None, window=({"window": 3}, "keys"))
    seen = {"keys": [-2, -1, 0], "lookback": [-3, -2, -1, 0], "each side": [-3, -2, -1, 0, 1, 2, 3]}
    for counts, keys in seen.items():
        rule = sliding_window(3, counts)
        as_read = replace(read_only, read=lambda arguments, sizes, rule=rule: Reading(rule))
        assert window(as_read) == {"counts": "keys", "keys": keys}


def test_the_two_meanings_of_pytorch_are_both_in_the_chart():
    assert COMMITTED["F.scaled_dot_product_attention"]["entries"]["attn_mask"]["bool"] == "allowed"
    assert COMMITTED["nn.MultiheadAttention"]["entries"]["attn_mask"]["bool"] == "blocked"


def test_a_mask_of_samples_that_is_taken_for_one_of_queries_is_in_the_chart():
    of_sdpa = COMMITTED["F.scaled_dot_product_attention"]["shapes"]["attn_mask: bool"]
    assert of_sdpa["B T_k"].startswith("refused")
    assert of_sdpa["B T_k where B == T_q"] == "taken for T_q T_k"


def test_versions_are_those_that_are_released():
    assert versions(SDPA).keys() == {"torch"}
    assert "+" not in versions(SDPA)["torch"]
