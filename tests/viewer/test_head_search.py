"""Heads are found by what they do: each measure on maps made by hand, where its value is known."""

import math

import pytest
import torch
from hand_made_maps import HEADS, LENGTH, TOKENS, by_name, one_layer
from pages_read import facts_of

from softlookup import view
from softlookup.masks import causal
from softlookup.viewer.head_measures import MEASURES
from softlookup.viewer.map_layers import TensorLayer
from softlookup.viewer.measuring_maps import measure_layer
from softlookup.viewer.run_tokens import RunTokens


def numbers_of(weights, **more):
    (layer,) = facts_of(view(weights, **({"tokens": TOKENS, "allowed_mask": causal()} | more)).html)["layers"]
    return layer


@pytest.fixture(scope="module")
def layer():
    return numbers_of(one_layer())


@pytest.mark.parametrize("name", HEADS)
def test_the_head_that_does_it_is_the_first_one_found(layer, name):
    values = layer["numbers"][name]
    assert max(range(len(HEADS)), key=lambda head: values[head]) == HEADS.index(name)
    assert values[HEADS.index(name)] == 1.0


def test_previous_token_is_the_mean_over_queries_that_have_one():
    weights = by_name("self")[None].clone()
    weights[0, 4] = torch.eye(LENGTH)[3]
    assert numbers_of(weights)["numbers"]["previous token"] == [pytest.approx(1 / 9, rel=1e-4)]


def test_first_token_and_self_leave_out_the_query_that_sees_one_key():
    numbers = numbers_of(by_name("self")[None])["numbers"]
    assert numbers["first token"] == [0.0]
    assert numbers["self"] == [1.0]


def test_induction_counts_queries_whose_token_stood_before_and_all_keys_after_these():
    weights = by_name("first token")[None].clone()
    weights[0, 9] = torch.eye(LENGTH)[[2, 6]].mean(dim=0)  # " a" stood at 1 and 5: " b" came after both
    # Of the five queries 5 to 9 whose token stood before, one looks there.
    assert numbers_of(weights)["numbers"]["induction"] == [pytest.approx(0.2, rel=1e-4)]


def test_next_token_says_something_only_where_a_query_may_look_ahead():
    ahead = torch.eye(LENGTH).roll(1, dims=1)[None]
    ahead[0, -1] = torch.eye(LENGTH)[-1]
    everything = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    assert numbers_of(ahead, allowed_mask=everything)["numbers"]["next token"] == [1.0]
    assert numbers_of(by_name("self")[None])["numbers"]["next token"] == [None]


def test_near_counts_keys_at_most_four_away_of_queries_that_see_farther():
    weights = by_name("self")[None].clone()
    weights[0, 9] = torch.eye(LENGTH)[4]  # 5 away
    # Queries 5 to 9 see keys that are farther than 4; one of them looks there.
    assert numbers_of(weights)["numbers"]["near"] == [pytest.approx(0.8, rel=1e-4)]


def test_separators_are_full_stops_and_special_tokens():
    tokens = ["<s>", " a", " b", ".", " d", " a", " b", " c", " d", " a"]
    weights = torch.eye(LENGTH)[torch.tensor([0, 0, 0, 3, 3, 3, 0, 7, 7, 7])][None]
    assert numbers_of(weights, tokens=tokens)["numbers"]["separators"] == [pytest.approx(0.7, rel=1e-4)]


def test_uniform_is_the_entropy_by_the_log_of_visible_keys():
    weights = by_name("uniform")[None]
    layer = numbers_of(weights)
    assert layer["numbers"]["uniform"] == [1.0]
    nats = sum(math.log(n) for n in range(1, LENGTH + 1)) / LENGTH
    assert layer["numbers"]["entropy_nats"] == [pytest.approx(nats, rel=1e-4)]


def test_one_key_is_the_mean_of_the_largest_weights():
    numbers = numbers_of(by_name("uniform")[None])["numbers"]
    assert numbers["one key"] == [pytest.approx(sum(1 / n for n in range(2, 11)) / 9, rel=1e-4)]


def test_distance_is_the_mean_by_weight():
    weights = by_name("first token")[None]
    assert numbers_of(weights)["numbers"]["distance_tokens"] == [pytest.approx(4.5)]


def test_chance_is_what_even_weights_give(layer):
    even = numbers_of(by_name("uniform")[None])["numbers"]
    for measure in MEASURES:
        chance, value = layer["chance"][measure.name][0], even[measure.name][0]
        assert (chance is None and value is None) or chance == pytest.approx(value, rel=1e-4), measure.name


def test_without_tokens_what_needs_them_says_nothing():
    numbers = numbers_of(one_layer(), tokens=None)["numbers"]
    for name in ("induction", "same token", "separators"):
        assert numbers[name] == [None] * len(HEADS)
    assert numbers["previous token"][0] == 1.0


def test_cross_attention_has_no_previous_token_and_no_distance():
    layer = numbers_of(torch.full((2, 3, 5), 0.2), tokens=(["x", "y", "z"], list("abcde")), allowed_mask=None)
    for name in ("previous token", "self", "induction", "next token", "near", "distance_tokens"):
        assert layer["numbers"][name] == [None, None]
    assert layer["numbers"]["uniform"] == [1.0, 1.0]


def test_keys_of_a_cache_shift_a_querys_own_place():
    layer = TensorLayer("h", torch.eye(6)[None, 3:5], None, "cached")  # queries 4 and 5 of 6 keys
    measured = measure_layer(layer, RunTokens().known(layer), None, range(2))
    assert measured.numbers["previous token"].tolist() == [1.0]


def test_every_measure_says_what_it_is_and_no_two_share_a_name():
    names = [it.name for it in MEASURES]
    assert len(set(names)) == len(names)
    assert all(it.how and it.of.__doc__ for it in MEASURES)
