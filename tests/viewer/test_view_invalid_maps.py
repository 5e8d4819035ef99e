"""A map that no softmax makes is refused, with its place and the number; what explains it is let through."""

import math

import pytest
import torch
from hand_made_maps import random_maps
from pages_read import facts_of

from softlookup import SoftlookupError, view
from softlookup.masks import causal


def with_row(row, layer=1, head=2, query=3):
    weights = random_maps(2, 3, 5, 5).clone()
    weights[layer, head, query] = torch.tensor(row)
    return {"encoder.0": weights[0], "encoder.1": weights[1]}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([0.6, 0.6, 0.0, 0.0, 0.0], "a sum of 1.2"),
        ([1.0, 1.0, 1.0, 0.0, 0.0], "a sum of 3"),
        ([0.2, 0.2, 0.0, 0.0, 0.0], "a sum of 0.4"),
        ([1.5, -0.5, 0.0, 0.0, 0.0], "-0.5 at key 1"),
        ([0.5, 0.5, math.nan, 0.0, 0.0], "nan at key 2"),
        ([0.5, 0.5, 0.0, 0.0, math.inf], "inf at key 4"),
    ],
)
def test_the_place_and_the_number_are_named(row, words):
    with pytest.raises(SoftlookupError) as refused:
        view(with_row(row))
    assert "layer encoder.1, head 2, is invalid in row 3" in str(refused.value)
    assert words in str(refused.value)


def test_both_runs_of_a_comparison_are_looked_at():
    with pytest.raises(SoftlookupError, match="is invalid in row 3"):
        view(random_maps(2, 3, 5, 5), compare=list(with_row([0.2, 0.2, 0, 0, 0.0]).values()))


def test_rows_of_a_later_block_are_looked_at_too(monkeypatch):
    monkeypatch.setattr("softlookup.viewer.measuring_maps._CELLS_AT_ONCE", 1)
    monkeypatch.setattr("softlookup.viewer.measuring_maps._ROWS_AT_ONCE", 1)
    with pytest.raises(SoftlookupError, match="row 3"):
        view(with_row([0.2, 0.2, 0, 0, 0.0]))


def test_a_sink_explains_rows_below_one_and_no_others():
    view(with_row([0.2, 0.2, 0.0, 0.0, 0.0]), explained_by="sink")
    with pytest.raises(SoftlookupError, match=r"a sum of 1\.2"):
        view(with_row([0.6, 0.6, 0.0, 0.0, 0.0]), explained_by="sink")


def test_dropout_explains_any_sum_but_no_negative_weight():
    view(with_row([0.9, 0.9, 0.0, 0.0, 0.0]), explained_by="dropout")
    with pytest.raises(SoftlookupError, match=r"-0\.5"):
        view(with_row([1.5, -0.5, 0.0, 0.0, 0.0]), explained_by="dropout")


def test_a_query_without_keys_may_be_zero_and_is_counted():
    for weights in (torch.eye(3).expand(2, 3, 3), random_maps(2, 3, 3)):  # taken as causal, and not
        html = view({"h": weights.index_fill(1, torch.tensor([1]), 0.0)}).html
        assert facts_of(html)["notes"] == ["h: 1 query sees no key, and its row is 0."]


def test_a_query_that_sees_keys_may_not_be_zero():
    weights = torch.eye(3)[None].clone()
    weights[0, 1] = 0
    with pytest.raises(SoftlookupError, match=r"row 1(.|\n)*a sum of 0"):
        view(weights, allowed_mask=causal())


def test_sums_of_half_precision_are_coarse():
    weights = torch.full((2, 6, 6), 1 / 6).bfloat16()
    assert (weights.float().sum(-1) - 1).abs().max() > 1e-3
    view(weights)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (torch.zeros(3), r"\[H, T_q, T_k\]"),
        (torch.zeros(2, 3, 4, 5, 5), "no maps"),
        (torch.zeros(1, 0, 4), "no empty axis"),
        (torch.zeros(1, 4, 4, dtype=torch.int64), "expected: floats"),
        ({"h": [1, 2]}, "layer 'h' holds no weights"),
        (7, "there is nothing to show"),
    ],
)
def test_what_is_no_map_is_refused(what, words):
    with pytest.raises(SoftlookupError, match=words):
        view(what)


def test_a_mask_that_does_not_fit_is_refused():
    with pytest.raises(SoftlookupError, match=r"allowed_mask does not fit(.|\n)*bool \[4, 4\]"):
        view(random_maps(2, 5, 5), allowed_mask=torch.ones(4, 4, dtype=torch.bool))


@pytest.mark.parametrize("tokens", ["abcde", [1, 2, 3, 4, 5], list("abcd"), (list("abcd"), list("xyz"))])
def test_tokens_that_do_not_fit_are_refused(tokens):
    with pytest.raises(SoftlookupError, match="tokens"):
        view(random_maps(2, 5, 5), tokens=tokens)


def test_a_file_of_another_kind_is_refused_before_anything_is_computed():
    with pytest.raises(SoftlookupError, match=r"\.html, \.png, \.svg"):
        view(None, to="maps.pdf")
