"""Spans: the intervals of keys that each query sees are what the dense mask says, and no more than needed."""

import doctest
from itertools import combinations_with_replacement, product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from softlookup import Mask, SoftlookupError, masks
from softlookup.masks import causal, padding, rule_file, rule_names, runs, spans, visibility
from softlookup.masks.spans import spans_of

CORNERS = ("top-left", "bottom-right")
WITHOUT_SPANS = {"dilated_counts_keys"}  # its keys do not lie side by side


def rows_of(choices, k_len):
    """Return every row of ids as one batch: [choices ** k_len, k_len]."""
    return torch.tensor(list(product(range(choices), repeat=k_len))).view(-1, k_len)


def cuts(k_len):
    """Yield cumulative lengths of up to four documents, empty ones too."""
    for inner in combinations_with_replacement(range(k_len + 1), 3):
        yield (0, *inner, k_len)


def every(name, values, corners=CORNERS):
    return [{name: value, "corner": corner} for value in values for corner in corners]


#: Each rule: all its parameters up to 6, for q_len queries and k_len keys.
PARAMETERS = {
    "causal_top_left": lambda q_len, k_len: [{}],
    "causal_bottom_right": lambda q_len, k_len: [{}],
    "window_counts_keys": lambda q_len, k_len: every("window", range(1, 7)),
    "window_counts_lookback": lambda q_len, k_len: every("window", range(7)),
    "window_each_side": lambda q_len, k_len: every("window", range(7)),
    "chunk_both_ways": lambda q_len, k_len: every("chunk_size", range(1, 7)),
    "chunk_up_to_self": lambda q_len, k_len: every("chunk_size", range(1, 7)),
    "chunk_and_earlier": lambda q_len, k_len: every("chunk_size", range(1, 7)),
    "padding_right": lambda q_len, k_len: [{"lengths": n} for n in (*range(k_len + 1), [*range(k_len + 1)])],
    "padding_left": lambda q_len, k_len: [{"lengths": n} for n in (*range(k_len + 1), [*range(k_len + 1)])],
    "padding_token_ids": lambda q_len, k_len: [{"token_ids": rows_of(2, k_len), "pad_id": 1}],
    "prefix_then_causal": lambda q_len, k_len: every(
        "prefix_lengths", (*range(k_len + 1), [*range(k_len + 1)])
    ),
    "same_document": lambda q_len, k_len: every("document_ids", [rows_of(3, k_len)] * (q_len <= k_len)),
    "same_segment_cu_seqlens": lambda q_len, k_len: every("cu_seqlens", cuts(k_len)) * (q_len <= k_len),
}


def needed(dense):
    """Return how many intervals the query with most of them sees, counted on bool [..., T_k]."""
    starts = dense.clone()
    starts[..., 1:] &= ~dense[..., :-1]
    return int(starts.sum(-1).max()) if starts.numel() else 0


def assert_right(found, mask, q_len, k_len):
    """Compare spans with the dense mask, and hold them against what their docstring promises."""
    first, stop = found.first, found.stop
    dense = mask.dense(q_len, k_len, device="cpu")
    assert first.dtype == stop.dtype == torch.int64
    assert first.shape == stop.shape == (len(first), first.shape[1], q_len)
    assert first.shape[1] in {1, len(dense)}
    keys = torch.arange(k_len)
    layers = (first[..., None] <= keys) & (keys < stop[..., None])  # [layers, B or 1, T_q, T_k]
    assert torch.equal(layers.any(0)[:, None].expand_as(dense), dense)
    assert len(first) == max(1, needed(dense))
    empty = first == stop
    assert (first <= stop).all()
    assert (first[empty] == k_len).all()
    assert (empty[1:] >= empty[:-1]).all()
    assert ((stop[:-1] < first[1:]) | empty[1:]).all()
    assert torch.equal(found.counts()[:, None].expand(dense.shape[:3]), dense.sum(-1))
    assert found.empty_rows() == (not dense.any(-1).all())


def test_every_rule_is_tried_here():
    assert set(PARAMETERS) == set(rule_names()) - WITHOUT_SPANS


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_spans_of_a_rule_are_its_dense_mask(name):
    for q_len, k_len in product(range(1, 7), repeat=2):
        for parameters in PARAMETERS[name](q_len, k_len):
            mask = visibility(name, **parameters)
            assert_right(spans_of(mask, q_len, k_len), mask, q_len, k_len)


@pytest.mark.parametrize("name", [name for name in PARAMETERS if rule_file(name).span])
def test_a_span_of_one_query_is_that_of_all_queries(name):
    for q_len, k_len in ((2, 5), (5, 5), (5, 2)):
        for given_values in PARAMETERS[name](q_len, k_len):
            parameters = visibility(name, **given_values).parameters
            if any(isinstance(parameters[counted], tuple) for counted in rule_file(name).per_sample):
                continue  # one number for each sample: only on tensors
            sizes = {"q_len": q_len, "k_len": k_len, **parameters}
            ends = rule_file(name).span(torch.arange(q_len), **sizes)
            together = [torch.as_tensor(end).expand(q_len).tolist() for end in ends]
            one_by_one = [[int(end) for end in rule_file(name).span(i, **sizes)] for i in range(q_len)]
            assert one_by_one == [list(pair) for pair in zip(*together, strict=True)]


def test_no_mask_is_one_interval_of_all_keys():
    found = spans_of(None, 3, 5)
    assert (found.first.tolist(), found.stop.tolist()) == ([[[0, 0, 0]]], [[[5, 5, 5]]])
    assert not found.empty_rows()
    assert spans_of(None, 3, 0).empty_rows()


# Trees


def tensors(q_len, k_len):
    """Masks of a tensor: any axis its size or 1."""
    return st.tuples(
        st.sampled_from([1, 2]), st.sampled_from([1, q_len]), st.sampled_from([1, k_len])
    ).flatmap(
        lambda size: st.lists(
            st.booleans(), min_size=size[0] * size[1] * size[2], max_size=size[0] * size[1] * size[2]
        ).map(lambda bits: Mask.from_tensor(torch.tensor(bits).view(size[0], 1, *size[1:])))
    )


def trees(q_len, k_len):
    count, corner = st.integers(0, k_len), st.sampled_from(CORNERS)
    lengths = st.one_of(count, st.lists(count, min_size=2, max_size=2))
    ids = st.lists(st.integers(0, 2), min_size=2 * k_len, max_size=2 * k_len)
    ids = ids.map(lambda numbers: torch.tensor(numbers).view(2, k_len))
    number = st.integers(1, 5)
    leaves = st.one_of(
        st.builds(causal, corner),
        st.builds(padding, lengths, st.sampled_from(["right", "left"])),
        st.builds(masks.padding_of, ids),
        st.builds(masks.sliding_window, number, st.sampled_from(["keys", "lookback", "each side"]), corner),
        st.builds(masks.prefix_lm, lengths, corner),
        st.builds(masks.documents, ids, corner),
        st.builds(
            masks.packed, st.lists(count, max_size=3).map(lambda cut: [0, *sorted(cut), k_len]), corner
        ),
        st.builds(masks.chunked, number, st.just("own and earlier chunks"), corner),
        tensors(q_len, k_len),
    )
    return st.recursive(
        leaves,
        lambda part: st.one_of(
            st.builds(lambda a, b: a & b, part, part),
            st.builds(lambda a, b: a | b, part, part),
            part.map(lambda a: ~a),
        ),
        max_leaves=5,
    )


@st.composite
def trees_and_lengths(draw):
    k_len = draw(st.integers(1, 9))
    q_len = draw(st.integers(1, min(k_len, 5)))
    return draw(trees(q_len, k_len)), q_len, k_len


@given(trees_and_lengths(), st.integers(1, 4))
@settings(deadline=None, max_examples=200)
def test_a_tree_of_masks_has_the_spans_of_its_dense_mask_or_too_many(drawn, at_most):
    mask, q_len, k_len = drawn
    found = spans_of(mask, q_len, k_len, at_most=at_most)
    if needed(mask.dense(q_len, k_len)) > at_most:
        assert found is None
    else:
        assert_right(found, mask, q_len, k_len)


def test_a_part_may_have_more_intervals_than_the_whole():
    holes = masks.padding_of(torch.tensor([[1, 0] * 6]))
    assert spans_of(holes, 12, 12) is None
    assert_right(spans_of(holes & masks.sliding_window(5), 12, 12), holes & masks.sliding_window(5), 12, 12)


def test_neighbours_are_one_interval():
    mask = masks.packed([0, 2, 5]) | padding(2)
    assert_right(spans_of(mask, 5, 5, at_most=1), mask, 5, 5)


def test_a_document_that_no_query_is_in_makes_no_layer():
    mask = masks.documents(torch.tensor([[0, 1, 2, 1, 2, 1]]))
    assert_right(spans_of(mask, 1, 6, at_most=1), mask, 1, 6)


def test_what_cannot_be_told_is_none_and_so_is_what_it_is_part_of():
    dilated = masks.dilated(2, step=2)
    heads = Mask.from_tensor(torch.ones(1, 2, 3, 3, dtype=torch.bool))
    for mask in (dilated, ~dilated, dilated & causal(), causal() | dilated, heads, heads & causal()):
        assert spans_of(mask, 3, 3) is None


def test_lengths_that_do_not_fit_are_refused():
    with pytest.raises(SoftlookupError, match="T_k = 3"):
        spans_of(masks.documents(torch.tensor([[0, 0, 1]])), 2, 4)
    with pytest.raises(SoftlookupError, match="counts more keys than there are"):
        spans_of(causal() & padding(5), 2, 4)


# Tensors


@pytest.mark.parametrize("at_once", [1, 20, 1 << 20])
@pytest.mark.parametrize("T", [1, 7, 8, 9, 16, 33])
def test_runs_are_found_wherever_rows_are_cut(monkeypatch, at_once, T):
    monkeypatch.setattr(runs, "_AT_ONCE", at_once)
    generator = torch.Generator().manual_seed(T)
    start, stop = torch.randint(0, T + 1, (2, 40, 1), generator=generator)
    visible = (start <= torch.arange(T)) & (torch.arange(T) < stop)
    mask = Mask.from_tensor(visible)
    assert_right(spans_of(mask, 40, T), mask, 40, T)


def test_one_row_with_too_many_runs_is_enough_for_none():
    visible = torch.ones(40, 12, dtype=torch.bool)
    visible[17, 1::2] = False
    assert spans_of(Mask.from_tensor(visible), 40, 12) is None
    assert spans_of(Mask.from_tensor(visible), 40, 12, at_most=6) is not None


def test_a_dense_mask_full_of_holes_is_given_up_early(monkeypatch):
    looked_at = []
    edges = runs._edges
    monkeypatch.setattr(runs, "_AT_ONCE", 1000)
    monkeypatch.setattr(runs, "_edges", lambda visible, most: (looked_at.append(1), edges(visible, most))[1])
    holes = torch.rand(500, 200, generator=torch.Generator().manual_seed(0)) < 0.5
    assert spans_of(Mask.from_tensor(holes), 500, 200) is None
    assert len(looked_at) == 1


# What it costs


class Largest(TorchDispatchMode):
    """Remember the largest tensor that anything returned."""

    entries = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        answer = function(*args, **(kwargs or {}))
        for tensor in answer if isinstance(answer, (tuple, list)) else [answer]:
            if isinstance(tensor, torch.Tensor):
                self.entries = max(self.entries, tensor.numel())
        return answer


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_rule_makes_no_tensor_of_queries_by_keys(name):
    T = 512
    ids = (torch.arange(T) // 50)[None]
    values = {
        "window": 9,
        "chunk_size": 9,
        "lengths": [3, T],
        "prefix_lengths": [3, T],
        "token_ids": ids,
        "document_ids": ids,
        "cu_seqlens": [0, 100, T],
    }
    parameters = {key: value for key, value in values.items() if key in PARAMETERS[name](3, 3)[0]}
    mask = ~(visibility(name, **parameters) & causal()) | padding([5, 6])
    with Largest() as largest:
        assert spans_of(mask, T, T) is not None
    assert T < largest.entries <= 40 * T


def test_an_id_that_keeps_coming_back_is_given_up_before_its_runs_are_laid_out():
    T = 512
    mask = masks.documents(torch.arange(T)[None] % 2)
    with Largest() as largest:
        assert spans_of(mask, T, T) is None
    assert T <= largest.entries <= 40 * T


def test_spans_lie_on_the_cpu_whatever_the_default_device_is():
    ids = torch.tensor([[1, 1, 2, 0]])
    parts = [
        masks.documents(ids) | masks.prefix_lm([1, 2]),
        masks.padding_of(ids) & causal(),
        masks.packed([0, 2, 4]) & ~padding([1, 3], side="left"),
        masks.chunked(3) & Mask.from_tensor(ids > 0),
    ]
    with torch.device("meta"):
        found = [spans_of(mask, 4, 4) for mask in (None, *parts)]
    for mask, each in zip(parts, found[1:], strict=True):
        assert_right(each, mask, 4, 4)
    assert found[0].counts().tolist() == [[4] * 4]


def test_a_mask_is_as_it_was_after_its_spans_are_taken():
    ids = torch.tensor([[1, 1, 2, 0]])
    mask = masks.documents(ids) & masks.prefix_lm([1, 2])
    spans_of(mask, 4, 4)
    assert mask == masks.documents(ids) & masks.prefix_lm([1, 2])


@pytest.mark.parametrize("module", [runs, spans])
def test_the_examples_in_the_docstrings_run(module):
    result = doctest.testmod(module)
    assert result.attempted
    assert not result.failed
