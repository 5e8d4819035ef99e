"""From a dense mask back to its rules: exactly, or not at all."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup.conventions.recognising import recognise
from softlookup.masks import causal, padding
from softlookup.masks.expression import read_mask_expression

FOUND = [
    "causal",
    'causal("bottom-right")',
    "padding([3, 8])",
    'padding([3, 8], "left")',
    "causal & padding([3, 8])",
    'causal & padding([3, 8], "left")',
    "sliding_window(3)",
    'sliding_window(2, "each side")',
    "sliding_window(3) & padding([5, 8])",
    "documents([[0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1]])",
    "documents([[0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1]]) & causal",
    "packed([0, 3, 8])",
    "packed([0, 3, 8]) & causal",
    "packed([0, 3, 8]) & sliding_window(2)",
    "prefix_lm([2, 4])",
    "chunked(2)",
    'chunked(2, "own chunk")',
    'chunked(2, "own and earlier chunks")',
    "documents([[0, 0, 1, 1, 1, 2, 2, 2], [0, 0, 0, 0, 1, 1, 1, 1]]) & causal & padding([6, 8])",
]


@pytest.mark.parametrize("words", FOUND)
def test_rules_are_found_again(words):
    mask = read_mask_expression(words)
    found = recognise(mask.dense(8, 8).clone())
    assert found is not None
    assert recognise(~mask.dense(8, 8), hides=True) == found
    assert torch.equal(found.dense(8, 8).expand(2, 1, 8, 8), mask.dense(8, 8).expand(2, 1, 8, 8))
    assert "from_tensor" not in repr(found)


@pytest.mark.parametrize("corner", ["top-left", "bottom-right"])
def test_the_corner_is_found_where_lengths_differ(corner):
    assert recognise(causal(corner).dense(4, 8).clone()) == causal(corner)


def test_one_wrong_entry_anywhere_is_no_rule():
    right = (causal() & padding([300, 512])).dense(512, 512).clone()
    for place in [(0, 0, 0, 511), (1, 0, 256, 3), (0, 0, 511, 299), (1, 0, 301, 300)]:
        wrong = right.clone()
        wrong[place] ^= True
        assert recognise(wrong) is None


def test_large_masks_are_found_from_a_sample_and_held_against_every_entry():
    right = (causal() & padding([3000, 4096])).dense(4096, 4096).clone()
    assert recognise(right) == causal() & padding([3000, 4096])
    assert recognise(~right, hides=True) == causal() & padding([3000, 4096])
    right[0, 0, 4001, 17] = False  # a row and a key that no sample and no diagonal shows
    assert recognise(right) is None


def test_views_that_repeat_rows_are_not_made_dense():
    rows = torch.ones(32, 1, 1, 1 << 16, dtype=torch.bool)
    rows[3, ..., 100:] = False
    found = recognise(rows.expand(32, 16, 1 << 16, 1 << 16))  # 2 TiB if it were
    assert found == padding([100 if sample == 3 else 1 << 16 for sample in range(32)])


def test_an_odd_width_and_an_odd_place_in_memory_are_no_trouble():
    memory = torch.zeros(3 + 37 * 37, dtype=torch.bool)
    view = memory[3:].view(1, 1, 37, 37)
    view.copy_(torch.ones(37, 37).tril().bool())
    assert recognise(view) == causal()
    assert recognise(view.transpose(2, 3)) is None


@given(seed=st.integers(0, 10_000), visible=st.sampled_from([0.1, 0.5, 0.9, 1.0]), rows=st.integers(1, 6))
@settings(max_examples=200, deadline=None)
def test_what_is_found_is_the_mask(seed, visible, rows):
    allowed = torch.rand(2, 1, rows, 6, generator=torch.Generator().manual_seed(seed)) < visible
    found = recognise(allowed)
    if found is not None:
        assert torch.equal(found.dense(rows, 6).expand(2, 1, rows, 6), allowed)
