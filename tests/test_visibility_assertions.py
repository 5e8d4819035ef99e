"""Assertions about who may look at whom: failures in their words, refusals, sources, samples and heads."""

import re

import pytest
import torch

from softlookup import SoftlookupError
from softlookup.masks import Mask, causal, padding, sliding_window
from softlookup.testing import (
    assert_allowed,
    assert_causal,
    assert_hidden,
    assert_hides_padding,
    assert_row,
)

LOWER = torch.ones(4, 4).tril().bool()
TOKENS = torch.tensor([[12, 91, 33, 0], [44, 17, 29, 81]])
REAL = TOKENS != 0


def failure(assertion, *arguments, **named):
    """Return the words of an assertion that must fail."""
    with pytest.raises(AssertionError) as caught:
        assertion(*arguments, **named)
    return str(caught.value)


def refusal(assertion, *arguments, **named):
    with pytest.raises(SoftlookupError) as caught:
        assertion(*arguments, **named)
    return str(caught.value)


# One key


def test_a_hidden_key_fails_with_the_rules_that_hide_it_and_the_row():
    words = failure(assert_allowed, causal() & sliding_window(2), query=3, key=1, q_len=5, k_len=5)
    assert words.splitlines() == [
        "query 3 should see key 1; it sees keys 2 to 3",
        "  key    0 1 2 3 4",
        "  sees   . . 1 1 .",
        "  wrong    ^",
        "  key 1 is hidden from query 3: sliding_window(2)",
    ]


def test_a_visible_key_that_should_be_hidden_fails_with_the_row():
    words = failure(assert_hidden, causal(), query=2, key=0)
    assert words.splitlines() == [
        "query 2 should not see key 0; it sees keys 0 to 2",
        "  key    0 1 2",
        "  sees   1 1 1",
        "  wrong  ^",
    ]


@pytest.mark.parametrize("query", range(4))
@pytest.mark.parametrize("key", range(4))
def test_exactly_one_of_allowed_and_hidden_holds(query, key):
    holds, fails = (assert_allowed, assert_hidden) if key <= query else (assert_hidden, assert_allowed)
    for mask in (causal(), LOWER, Mask.from_tensor(LOWER)):
        holds(mask, query=query, key=key, q_len=4, k_len=4)
        failure(fails, mask, query=query, key=key, q_len=4, k_len=4)


def test_a_tensor_of_the_opposite_meaning_is_suspected():
    words = failure(assert_allowed, ~LOWER, query=2, key=1)
    assert "looks inverted" in words
    assert "source='blocked_mask'" in words
    assert_allowed(~LOWER, query=2, key=1, source="blocked_mask")


def test_nothing_is_suspected_where_a_query_sees_itself_or_somebody_said_the_meaning():
    assert "inverted" not in failure(assert_hidden, LOWER, query=2, key=1)
    assert "inverted" not in failure(assert_allowed, ~LOWER, query=2, key=1, source="allowed_mask")
    assert "inverted" not in failure(assert_allowed, ~causal(), query=2, key=1, q_len=4, k_len=4)


def test_an_inverted_row_is_suspected_where_queries_and_keys_are_not_equally_many():
    shown = torch.ones(2, 4).tril(1).bool()
    assert "looks inverted" in failure(assert_row, ~shown, query=0, keys=[0, 1])
    assert "inverted" not in failure(assert_row, shown, query=0, keys=[0])


def test_a_window_at_the_last_keys_is_not_called_inverted():
    shown = torch.tensor([[0, 0, 0, 1, 0], [0, 0, 0, 1, 1]]).bool()  # two new queries behind a cache
    assert "inverted" not in failure(assert_allowed, shown, query=0, key=4)


@pytest.mark.parametrize(
    "mask", [LOWER.numpy(), LOWER.tolist(), LOWER[None, None]], ids=["array", "list", "4-D"]
)
def test_a_mask_may_be_an_array_a_list_or_have_four_axes(mask):
    assert_row(mask, query=2, keys=[0, 1, 2])


def test_a_mask_speaks_of_at_least_so_many_keys():
    assert_allowed(padding([5]), query=0, key=0)
    assert "at most T_k = 3" in refusal(assert_allowed, padding([5]), query=0, key=0, k_len=3)


def test_the_mask_and_the_tokens_stay_as_they_were():
    mask, tokens = LOWER.clone(), TOKENS.clone()
    failure(assert_row, mask, query=1, keys=[3])
    assert_causal(mask)
    failure(assert_hides_padding, mask, tokens)
    assert torch.equal(mask, LOWER)
    assert torch.equal(tokens, TOKENS)


# Rows


def test_a_row_fails_for_what_is_missing_and_for_what_is_too_much():
    words = failure(assert_row, sliding_window(2), query=3, keys=[1, 2, 3])
    assert "should see keys 1 to 3 and nothing else; it sees keys 2 to 3" in words
    words = failure(assert_row, causal(), query=3, keys=[2, 3])
    assert "should see keys 2 to 3 and nothing else; it sees keys 0 to 3" in words
    assert words.splitlines()[3].split() == ["wrong", "^", "^"]


def test_a_row_without_keys_can_be_asserted():
    assert_row(padding([0, 2]), query=0, keys=[], batch=0, k_len=2)
    assert "should see no key and nothing else" in failure(assert_row, causal(), query=1, keys=[])


def test_only_a_part_of_a_long_row_is_drawn():
    words = failure(assert_allowed, causal(), query=100, key=900, q_len=1000, k_len=1000)
    assert max(map(len, words.splitlines())) < 120
    assert "900" in words.splitlines()[1]


# Samples and heads


def test_all_samples_must_do_and_the_first_that_does_not_is_named():
    mask = causal() & padding([3, 2])
    assert "query 2 of sample 1 should see key 2" in failure(assert_allowed, mask, query=2, key=2)
    assert_allowed(mask, query=2, key=2, batch=0)
    assert_hidden(mask, query=2, key=2, batch=1)


def test_all_heads_must_do_and_the_first_that_does_not_is_named():
    mask = LOWER.repeat(1, 3, 1, 1)
    mask[0, 2, 3, 0] = False
    assert "query 3 of head 2 should see key 0" in failure(assert_allowed, mask, query=3, key=0)
    assert_allowed(mask, query=3, key=0, head=1)


def test_a_mask_that_is_the_same_for_all_answers_for_each_sample():
    assert_allowed(causal(), query=1, key=0, batch=7, head=5)


def test_a_sample_that_is_not_there_is_refused():
    words = refusal(assert_allowed, padding([3, 2]), query=0, key=0, batch=2)
    assert "there is no batch 2" in words
    assert "0 to 1" in words


# Causal


def test_a_query_that_sees_later_keys_is_named_with_them():
    mask = LOWER.clone()
    mask[1, 3] = True
    assert failure(assert_causal, mask).splitlines() == [
        "query 1 sees later keys: its own is key 1, and it sees key 3",
        "  key    0 1 2 3",
        "  sees   1 1 . 1",
        "  later        ^",
    ]


def test_a_mask_of_the_other_corner_is_told():
    mask = torch.ones(2, 4).tril(2).bool()
    assert "it is causal with corner='bottom-right'" in failure(assert_causal, mask)
    assert_causal(mask, corner="bottom-right")
    first = torch.ones(4, 2).tril().bool()
    assert_causal(first)
    assert "it is causal with corner='top-left'" in failure(assert_causal, first, corner="bottom-right")


def test_an_opposite_causal_mask_is_told():
    assert "source='blocked_mask'" in failure(assert_causal, ~LOWER)
    assert_causal(~LOWER, source="blocked_mask")


def test_causal_needs_lengths_and_a_corner_that_exists():
    assert "q_len=..." in refusal(assert_causal, causal(), k_len=4)
    assert "'top-left' or 'bottom-right'" in refusal(assert_causal, LOWER, corner="top")


# Padding


def test_padding_that_is_hidden_passes_in_each_way_it_is_written():
    for mask in (padding([3, 4]), causal() & padding([3, 4]), REAL[:, None, None, :]):
        assert_hides_padding(mask, TOKENS)
    assert_hides_padding({"key_padding_mask": ~REAL}, TOKENS, source="nn.MultiheadAttention")
    assert_hides_padding(REAL.int()[:, None, None, :], TOKENS, source="1 = keep")


def test_visible_padding_is_named_with_its_sample():
    words = failure(assert_hides_padding, padding([4, 4]), TOKENS)
    assert words.splitlines()[:4] == [
        "query 0 of sample 0 sees padding: key 3",
        "  key      0 1 2 3",
        "  sees     1 1 1 1",
        "  padding        ^",
    ]


def test_another_pad_id_counts():
    assert_hides_padding(padding([3, 4]), torch.where(REAL, TOKENS, 7), 7)
    failure(assert_hides_padding, padding([3, 4]), TOKENS, 81)


def test_real_tokens_that_nobody_sees_are_named():
    words = failure(assert_hides_padding, padding([3, 2]), TOKENS)
    assert words.startswith("sample 1: no query sees keys 2 to 3, and they are no padding")


def test_hidden_queries_in_place_of_keys_are_told():
    words = failure(assert_hides_padding, REAL[:, None, :, None].expand(2, 1, 4, 4), TOKENS)
    assert "their columns must be hidden: mask[:, None, None, :]" in words


def test_one_mask_for_samples_of_different_padding_is_told():
    assert "it needs an axis [B, ...]" in failure(assert_hides_padding, LOWER, TOKENS)


def test_keys_of_samples_that_were_read_as_keys_of_queries_are_told():
    words = failure(assert_hides_padding, REAL.int(), TOKENS, source="1 = keep")
    assert "it is [B, T_k] and was read as [T_q, T_k]" in words


def test_inverted_padding_is_told():
    assert "source='blocked_mask'" in failure(assert_hides_padding, ~REAL[:, None, None, :], TOKENS)


def test_a_mask_that_hides_nothing_is_not_called_inverted():
    words = failure(assert_hides_padding, torch.ones(4, 4).bool(), TOKENS)
    assert "inverted" not in words
    assert "the same for all samples" in words


def test_two_axes_that_may_be_samples_are_refused():
    assert "[T_q, T_k] or [B, H, T_q, T_k]" in refusal(assert_hides_padding, REAL, TOKENS)


def test_tokens_of_another_batch_or_without_one_are_refused():
    assert "B = 2 in the mask" in refusal(assert_hides_padding, padding([3, 4, 4]), TOKENS)
    assert "[B, T]" in refusal(assert_hides_padding, padding([3, 4]), TOKENS[0])


# What is no mask, no place, no source


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ({"query": 4, "key": 0}, "query < T_q = 4 and key < T_k = 4"),
        ({"query": 0, "key": 4}, "query < T_q = 4 and key < T_k = 4"),
        ({"query": -1, "key": 0}, "at least 0"),
        ({"query": 0, "key": 1.0}, "a whole number"),
        ({"query": 0, "key": 0, "q_len": 5}, "q_len=5"),
        ({"query": 0, "key": 0, "source": "no_such"}, "no convention is called 'no_such'"),
    ],
)
def test_places_lengths_and_sources_that_do_not_exist_are_refused(named, expected):
    assert expected in refusal(assert_allowed, LOWER, **named)


@pytest.mark.parametrize("thing", ["causal", None, object()])
def test_what_is_no_mask_is_refused(thing):
    assert re.search("no mask|bool", refusal(assert_allowed, thing, query=0, key=0))


def test_each_assertion_reads_the_mask_of_another_library():
    theirs = {"attn_mask": ~LOWER, "key_padding_mask": ~REAL}
    source = {"source": "nn.MultiheadAttention"}
    assert_allowed(theirs, query=3, key=3, batch=1, **source)
    assert_hidden(theirs, query=3, key=3, batch=0, **source)
    assert_row(theirs, query=3, keys=[0, 1, 2], batch=0, **source)
    assert_causal(theirs, **source)
    assert_hides_padding(theirs, TOKENS, **source)
    additive = torch.zeros(4, 4).masked_fill(~LOWER, float("-inf"))
    assert_row(additive, query=1, keys=[0, 1], source="sdpa")
