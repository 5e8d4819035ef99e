"""Rows of several projections in one weight: which groups are tried, and what words rule out."""

import pytest

from softlookup.checker.fused_rows import halves, order_told, thirds, told_groups

ROWS, HEADS = 12, 2  # two heads of width 2


def test_equal_thirds_lie_part_by_part_first():
    first = next(thirds(ROWS, HEADS, None))
    assert first == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_rows_of_each_head_in_turn_are_tried_too():
    assert [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]] in list(thirds(ROWS, HEADS, None))


def test_shared_key_heads_leave_more_rows_for_the_queries():
    first = next(thirds(8, 2, 1))  # two query heads, one key and one value head, width 2
    assert first == [[0, 1, 2, 3], [4, 5], [6, 7]]


@pytest.mark.parametrize(
    "words",
    ["rows: all queries, then all keys, then all values", "blocks of rows: the queries, then the keys"],
)
def test_words_that_say_part_by_part_leave_the_group_that_begins_with_all_queries(words):
    groups = list(thirds(ROWS, HEADS, HEADS))
    assert told_groups(groups, words) == [[[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]]


def test_words_that_say_head_by_head_leave_out_part_by_part():
    groups = list(thirds(ROWS, HEADS, HEADS))
    assert told_groups(groups, "rows of the weight: q, k, v of each head in turn") == groups[1:]


def test_other_words_rule_nothing_out():
    groups = list(thirds(ROWS, HEADS, None))
    assert told_groups(groups, "a layer of attention with queries and keys") == groups


@pytest.mark.parametrize(("words", "told"), [("rows: q, then k, then v", True), ("attends to x", False)])
def test_an_order_counts_only_where_words_state_it(words, told):
    assert order_told(words) is told


def test_keys_and_values_lie_one_after_the_other_or_head_by_head():
    assert list(halves(8, 2)) == [
        ([0, 1, 2, 3], [4, 5, 6, 7]),
        ([0, 1, 4, 5], [2, 3, 6, 7]),
    ]
