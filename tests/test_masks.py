"""The masks: every rule file draws what it computes, the algebra keeps its word, refusals say what to do."""

import ast
import copy
import doctest
import math
import pickle
import re
from importlib import import_module
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup import Mask, SoftlookupError, make_causal_allowed_mask, make_padding_allowed_mask, masks
from softlookup.masks import AllOf, AnyOf, Bias, Given, Opposite, Rule, causal, padding, rule_file, rule_names
from softlookup.masks.linear_distance import slopes

HOME = Path(masks.__file__).parent
RULES, BIASES = rule_names(), rule_names("bias")
DRAWING = re.compile(r"^ {4}(q_len=\S+ k_len=[^\n]+)\n((?: {4,}[^\n]+\n)+)", re.M)


def drawings(name):
    """Yield (parameters, rows of words) of every drawing in a rule file's docstring."""
    page = ast.get_docstring(ast.parse((HOME / f"{name}.py").read_text("utf-8")), clean=False) + "\n"
    for head, body in DRAWING.findall(page):
        parameters = dict(word.split("=", 1) for word in head.split())
        yield (
            {k: parsed(v) for k, v in parameters.items()},
            [row.split() for row in body.strip().splitlines()],
        )


def parsed(word):
    try:
        return ast.literal_eval(word)
    except ValueError:
        return word


def positions(q_len, k_len):
    return torch.arange(q_len)[:, None], torch.arange(k_len)[None, :]


# Every rule file


def test_every_rule_file_is_found_by_its_name():
    assert {"causal_top_left", "padding_right", "window_counts_keys", "same_document"} <= set(RULES)
    assert BIASES == ("linear_distance",)


@pytest.mark.parametrize("name", RULES)
def test_a_drawing_is_what_the_predicate_computes_number_by_number(name):
    drawn = list(drawings(name))
    assert len(drawn) >= 2, f"{name} draws too little: one square and one with T_q != T_k"
    for sizes, rows in drawn:
        answer = rule_file(name).answer
        computed = [[answer(i, j, **sizes) for j in range(sizes["k_len"])] for i in range(sizes["q_len"])]
        assert [["1" if visible else "." for visible in row] for row in computed] == rows


@pytest.mark.parametrize("name", RULES)
def test_a_drawing_is_what_the_predicate_computes_on_index_tensors(name):
    for sizes, rows in drawings(name):
        i, j = positions(sizes["q_len"], sizes["k_len"])
        for token_data in rule_file(name).per_token:
            sizes[token_data] = torch.tensor(sizes[token_data])
        dense = rule_file(name).answer(i, j, **sizes).expand(sizes["q_len"], sizes["k_len"])
        assert dense.tolist() == [[word == "1" for word in row] for row in rows]


@pytest.mark.parametrize("name", RULES)
def test_a_drawing_is_what_the_mask_draws(name):
    for sizes, rows in drawings(name):
        q_len, k_len = sizes.pop("q_len"), sizes.pop("k_len")
        for token_data in rule_file(name).per_token:
            sizes[token_data] = torch.tensor([sizes[token_data]])
        drawn = masks.visibility(name, **sizes).draw(q_len, k_len)
        assert drawn.splitlines() == [" ".join(row) for row in rows]


@pytest.mark.parametrize("name", RULES + BIASES)
def test_a_rule_file_says_who_uses_it(name):
    assert "\nUsed by: " in rule_file(name, "bias" if name in BIASES else "allowed").page


@pytest.mark.parametrize("name", BIASES)
def test_a_bias_draws_the_numbers_that_it_computes(name):
    drawn = list(drawings(name))
    assert len(drawn) >= 2
    for sizes, rows in drawn:
        answer = rule_file(name, "bias").answer
        computed = [[answer(i, j, **sizes) for j in range(sizes["k_len"])] for i in range(sizes["q_len"])]
        assert computed == [[float(word) for word in row] for row in rows]


@pytest.mark.parametrize("name", RULES)
def test_a_rule_that_says_keys_only_is_the_same_for_every_query(name):
    differ = any(row != rows[0] for _, rows in drawings(name) for row in rows)
    assert differ != rule_file(name).keys_only


@pytest.mark.parametrize("module", [path.stem for path in sorted(HOME.glob("[a-z]*.py"))] + [""])
def test_the_examples_in_the_docstrings_run(module):
    home = import_module(f"softlookup.masks.{module}" if module else "softlookup.masks")
    assert doctest.testmod(home, optionflags=doctest.ELLIPSIS).failed == 0


def test_no_builder_shares_its_name_with_a_module():
    modules = {path.stem for home in (HOME, HOME.parent) for path in home.glob("*.py")}
    assert [name for name in masks.__all__ if name in modules] == []


# What each builder means, said a second time in plain words


@pytest.mark.parametrize(
    ("mask", "meaning"),
    [
        (masks.sliding_window(3), lambda i, j: j in (i - 2, i - 1, i)),
        (masks.sliding_window(3, "lookback"), lambda i, j: j in (i - 3, i - 2, i - 1, i)),
        (masks.sliding_window(1, "each side"), lambda i, j: abs(i - j) < 2),
        (masks.dilated(3, step=2), lambda i, j: j in (i, i - 2, i - 4)),
        (masks.prefix_lm(4), lambda i, j: j <= max(i, 3)),
        (masks.chunked(3), lambda i, j: i - i % 3 <= j <= i),
        (masks.chunked(3, "own chunk"), lambda i, j: i - i % 3 <= j < i - i % 3 + 3),
        (masks.chunked(3, "own and earlier chunks"), lambda i, j: j < i - i % 3 + 3),
        (masks.packed([0, 2, 2, 5, 7]), lambda i, j: "aabbbcc"[i] == "aabbbcc"[j]),
        (masks.packed(torch.tensor([0, 7])), lambda i, j: True),
        (padding(4), lambda i, j: j in (0, 1, 2, 3)),
        (padding(4, side="left"), lambda i, j: j in (3, 4, 5, 6)),
    ],
    ids=lambda value: "" if callable(value) else repr(value),
)
def test_a_builder_means_what_its_name_says(mask, meaning):
    assert mask.dense(7, 7)[0, 0].tolist() == [[meaning(i, j) for j in range(7)] for i in range(7)]


@pytest.mark.parametrize(
    "build",
    [
        causal,
        lambda corner: masks.sliding_window(3, corner=corner),
        lambda corner: masks.sliding_window(2, "lookback", corner),
        lambda corner: masks.sliding_window(2, "each side", corner),
        lambda corner: masks.dilated(2, 2, corner),
        lambda corner: masks.prefix_lm(2, corner),
        lambda corner: masks.chunked(3, corner=corner),
        lambda corner: masks.packed([0, 3, 7], corner),
        lambda corner: masks.documents(torch.tensor([[1, 1, 2, 2, 1, 1, 3]]), corner),
    ],
)
def test_the_corners_are_the_first_and_the_last_rows_of_the_square(build):
    square = build("top-left").dense(7, 7)
    assert torch.equal(build("bottom-right").dense(7, 7), square)
    assert torch.equal(build("top-left").dense(3, 7), square[..., :3, :])
    assert torch.equal(build("bottom-right").dense(3, 7), square[..., 4:, :])


def test_the_plain_masks_of_the_lesson_combine():
    token_ids = torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]])
    causal_mask, padding_mask = make_causal_allowed_mask(5), make_padding_allowed_mask(token_ids)
    assert torch.equal(causal_mask, torch.ones(5, 5).tril().bool()[None, None])
    assert padding_mask.shape == (2, 1, 1, 5)
    assert padding_mask[:, 0, 0].tolist() == [[True, True, True, False, False], [True] * 5]
    both = causal_mask & padding_mask
    assert torch.equal(both, (causal() & masks.padding_of(token_ids)).dense(5, 5))
    assert make_padding_allowed_mask(token_ids, pad_id=5)[1, 0, 0].tolist() == [True] * 4 + [False]


# The algebra


@st.composite
def masks_and_lengths(draw, how_many):
    """Some masks of two samples for the same lengths, T_q <= T_k."""
    k_len = draw(st.integers(1, 6))
    q_len = draw(st.integers(1, k_len))
    return [draw(trees(q_len, k_len)) for _ in range(how_many)], q_len, k_len


def trees(q_len, k_len):
    number, count = st.integers(1, 4), st.integers(0, k_len)
    corner = st.sampled_from(["top-left", "bottom-right"])
    lengths = st.one_of(count, st.lists(count, min_size=2, max_size=2))
    bits = st.lists(st.booleans(), min_size=6 * q_len * k_len, max_size=6 * q_len * k_len)
    ids = st.lists(st.integers(0, 2), min_size=2 * k_len, max_size=2 * k_len)
    ids = ids.map(lambda numbers: torch.tensor(numbers).view(2, k_len))
    cuts = st.lists(count, max_size=3).map(lambda cut: [0, *sorted(cut), k_len])
    leaves = st.one_of(
        st.builds(causal, corner),
        st.builds(padding, lengths, st.sampled_from(["right", "left"])),
        st.builds(masks.padding_of, ids),
        st.builds(masks.sliding_window, number, st.sampled_from(["keys", "lookback", "each side"]), corner),
        st.builds(masks.dilated, number, number, corner),
        st.builds(masks.prefix_lm, lengths, corner),
        st.builds(masks.documents, ids, corner),
        st.builds(masks.packed, cuts, corner),
        st.builds(
            masks.chunked,
            number,
            st.sampled_from(["own chunk", "own chunk up to itself", "own and earlier chunks"]),
            corner,
        ),
        bits.map(lambda b: Mask.from_tensor(torch.tensor(b).view(2, 3, q_len, k_len))),
    )
    return st.recursive(
        leaves,
        lambda part: st.one_of(
            st.builds(lambda a, b: a & b, part, part),
            st.builds(lambda a, b: a | b, part, part),
            part.map(lambda a: ~a),
        ),
        max_leaves=4,
    )


@given(masks_and_lengths(2))
@settings(deadline=None, max_examples=30)
def test_combining_masks_combines_their_dense_tensors(drawn):
    (a, b), q_len, k_len = drawn
    dense_a, dense_b = a.dense(q_len, k_len), b.dense(q_len, k_len)
    assert torch.equal((a & b).dense(q_len, k_len), dense_a & dense_b)
    assert torch.equal((a | b).dense(q_len, k_len), dense_a | dense_b)
    assert torch.equal((~a).dense(q_len, k_len), ~dense_a)
    assert torch.equal((~(a & b)).dense(q_len, k_len), (~a | ~b).dense(q_len, k_len))
    assert torch.equal((~(a | b)).dense(q_len, k_len), (~a & ~b).dense(q_len, k_len))


@given(masks_and_lengths(1))
@settings(deadline=None, max_examples=30)
def test_explain_and_draw_agree_with_dense_for_every_pair(drawn):
    (mask,), q_len, k_len = drawn
    dense = mask.dense(q_len, k_len)
    B, H = dense.shape[:2]
    for b, h, i, j in torch.cartesian_prod(*map(torch.arange, (B, H, q_len, k_len))).tolist():
        said = mask.explain(i, j, q_len=q_len, k_len=k_len, batch=b, head=h)
        assert said.startswith(f"key {j} is {'visible to' if dense[b, h, i, j] else 'hidden from'} query {i}")
    rows = [row for row in mask.draw(q_len, k_len).splitlines() if row[0] in "1."]
    assert rows == [" ".join(".1"[cell] for cell in row) for row in dense.flatten(0, 2).int().tolist()]


@given(masks_and_lengths(2))
@settings(deadline=None, max_examples=30)
def test_the_rules_that_explain_names_are_those_that_hide(drawn):
    (a, b), q_len, k_len = drawn
    both = a & b
    for i in range(q_len):
        said = both.explain(i, 0, q_len=q_len, k_len=k_len).partition(": ")[2]
        parts = [part.explain(i, 0, q_len=q_len, k_len=k_len).partition(": ")[2] for part in both.parts]
        assert said == " and ".join(filter(None, parts))


@given(masks_and_lengths(1))
@settings(deadline=None, max_examples=60)
def test_empty_rows_are_the_rows_without_a_key(drawn):
    (mask,), q_len, k_len = drawn
    dense = mask.dense(q_len, k_len)
    assert mask.empty_rows(q_len, k_len) == [tuple(row) for row in (~dense.any(-1)).nonzero().tolist()]


@given(masks_and_lengths(1))
@settings(deadline=None, max_examples=60)
def test_a_mask_knows_the_axes_that_it_depends_on(drawn):
    (mask,), q_len, k_len = drawn
    dense = mask.dense(q_len, k_len)
    for axis, dim in (("B", 0), ("H", 1), ("T_q", 2), ("T_k", 3)):
        if axis not in mask.axes:
            assert torch.equal(dense, dense.narrow(dim, 0, 1).expand_as(dense))
    assert dense.shape == (mask.sizes["B"] or 1, mask.sizes["H"] or 1, q_len, k_len)


@given(masks_and_lengths(1))
@settings(deadline=None, max_examples=30)
def test_a_mask_survives_copying_and_pickling(drawn):
    (mask,), q_len, k_len = drawn
    for twin in (copy.deepcopy(mask), pickle.loads(pickle.dumps(mask))):
        assert twin == mask
        assert hash(twin) == hash(mask)
        assert torch.equal(twin.dense(q_len, k_len), mask.dense(q_len, k_len))


def test_masks_are_equal_when_their_trees_are():
    ids = torch.tensor([[1, 1, 2]])
    assert causal() & padding([2, 3]) == causal() & padding(torch.tensor([2, 3]))
    assert causal() & padding([2, 3]) != causal() & padding([2, 2])
    assert causal() & padding(2) != causal() | padding(2)
    assert causal() != causal("bottom-right")
    assert causal() == masks.visibility("causal_top_left")
    assert masks.documents(ids) == masks.documents(ids.clone())
    assert masks.documents(ids) != masks.documents(ids + 1)
    assert Mask.from_tensor(ids > 1) == Mask.from_tensor(ids > 1)
    assert Mask.from_tensor(ids > 1) != Mask.from_tensor(ids > 0)
    a, b, c = causal(), padding(2), masks.chunked(2)
    assert (a & b) & c == a & (b & c)
    assert ~~a == a


def test_a_fast_path_can_read_the_structure():
    match causal() & padding([2, 3]) & ~masks.sliding_window(2):
        case AllOf((Rule("causal_top_left"), Rule("padding_right") as lengths, Opposite(Rule() as window))):
            assert lengths.parameters == {"lengths": (2, 3)}
            assert window.parameters == {"window": 2, "corner": "top-left"}
        case other:
            pytest.fail(f"no match: {other!r}")
    assert isinstance(causal() | padding(2), AnyOf)
    assert [leaf.name for leaf in (causal() & (padding(1) | ~padding(2))).leaves()] == [
        "causal_top_left",
        "padding_right",
        "padding_right",
    ]


def test_a_mask_prints_as_it_is_written():
    ids = torch.zeros(2, 5, dtype=torch.int64)
    written = {
        "causal() & padding([3, 5])": causal() & padding([3, 5]),
        "causal('bottom-right') & padding([3], 'left')": causal("bottom-right") & padding([3], side="left"),
        "(causal() | prefix_lm(2)) & ~padding(1)": (causal() | masks.prefix_lm(2)) & ~padding(1),
        "~(causal() & padding(1)) | packed([0, 4])": ~(causal() & padding(1)) | masks.packed([0, 4]),
        "sliding_window(4, 'lookback', corner='bottom-right')": masks.sliding_window(
            4, "lookback", "bottom-right"
        ),
        "padding_of([2, 5], pad_id=9) & documents([2, 5])": masks.padding_of(ids, 9) & masks.documents(ids),
        "chunked(4) | chunked(2, 'own chunk') | dilated(2, step=3)": masks.chunked(4)
        | masks.chunked(2, "own chunk")
        | masks.dilated(2, 3),
        "Mask.from_tensor(bool[1, 1, 2, 5])": Mask.from_tensor(ids == 0),
        "visibility('window_counts_keys', window=2)": masks.visibility("window_counts_keys", window=2),
        "alibi(8) & causal()": masks.alibi(8) & causal(),
        "alibi(8, corner='bottom-right')": masks.alibi(8, "bottom-right"),
    }
    assert {repr(mask): mask for mask in written.values()} == written


def test_a_mask_neither_follows_its_caller_nor_moves():
    ids, bits, lengths = torch.tensor([[1, 1, 2]]), torch.tensor([[True, False, True]]), [1, 2]
    kept = [masks.documents(ids), masks.padding_of(ids, 2), Mask.from_tensor(bits), padding(lengths)]
    before = [mask.dense(1, 3).clone() for mask in kept]
    ids.fill_(2)
    bits.fill_(True)
    lengths.reverse()
    assert all(torch.equal(mask.dense(1, 3), old) for mask, old in zip(kept, before, strict=True))
    with pytest.raises(AttributeError):
        kept[0].name = "causal_top_left"


def test_tensors_combine_with_masks_from_either_side():
    bits = torch.tensor([[True, True], [False, True]])
    for mask, dense in [
        (causal() & bits, [[True, False], [False, True]]),
        (bits & causal(), [[True, False], [False, True]]),
        (causal() | bits, [[True, True], [True, True]]),
        (bits | causal(), [[True, True], [True, True]]),
    ]:
        assert mask.dense(2, 2)[0, 0].tolist() == dense
    assert isinstance((bits & causal()).parts[0], Given)


def test_a_tensor_of_size_one_is_spread_over_its_axis():
    keys = Mask.from_tensor(torch.tensor([True, False, True]).view(1, 1, 1, 3))
    assert keys.axes == {"T_k"}
    assert keys.sizes == {"B": None, "H": None, "T_q": None, "T_k": 3}
    assert keys.dense(2, 3)[0, 0].tolist() == [[True, False, True]] * 2
    assert Mask.from_tensor(torch.tensor([[True], [False]])).dense(2, 2)[0, 0].tolist() == [
        [True] * 2,
        [False] * 2,
    ]


def test_a_mask_knows_its_sizes():
    ids = torch.zeros(2, 5, dtype=torch.int64)
    assert causal().sizes == {"B": None, "H": None, "T_q": None, "T_k": None}
    assert (causal() & padding([1, 2, 3])).sizes == {"B": 3, "H": None, "T_q": None, "T_k": None}
    assert masks.padding_of(ids).sizes == {"B": 2, "H": None, "T_q": None, "T_k": 5}
    assert masks.packed([0, 2, 6]).sizes["T_k"] == 6
    assert (masks.alibi(3) & masks.padding_of(ids)).sizes == {"B": 2, "H": 3, "T_q": None, "T_k": 5}
    assert padding([1, 2]).axes == {"B", "T_k"}
    assert (masks.alibi(3) & padding([1, 2])).axes == {"B", "H", "T_q", "T_k"}
    assert masks.alibi(1).axes == {"T_q", "T_k"}


# Sentences and drawings


def test_explain_names_every_rule_that_hides():
    ids = torch.tensor([[1, 1, 1, 1, 2, 2]] * 2)
    both = causal() & padding([3, 5])
    assert causal().explain(3, 5) == "key 5 is hidden from query 3: causal"
    assert causal().explain(3, 2) == "key 2 is visible to query 3"
    assert (
        both.explain(3, 5, batch=1) == "key 5 is hidden from query 3 of sample 1: causal and padding([3, 5])"
    )
    assert both.explain(3, 3, batch=1) == "key 3 is visible to query 3 of sample 1"
    assert both.explain(4, 3) == "key 3 is hidden from query 4 of sample 0: padding([3, 5])"
    assert masks.documents(ids).explain(3, 5).endswith("sample 0: documents([2, 6])")
    assert (
        (causal() | masks.prefix_lm(2)).explain(1, 2).endswith(": neither causal nor prefix_lm(2) shows it")
    )
    assert (~causal()).explain(1, 0).endswith(": ~causal shows only what causal hides")
    per_head = Mask.from_tensor(torch.tensor([True, False]).view(1, 2, 1, 1))
    assert (
        per_head.explain(0, 0, head=1)
        == "key 0 is hidden from query 0 of head 1: the given tensor [1, 2, 1, 1]"
    )


def test_explain_takes_the_lengths_into_account():
    assert causal("bottom-right").explain(0, 2, q_len=2, k_len=4) == "key 2 is visible to query 0"
    assert "hidden" in causal("bottom-right").explain(0, 2)


def test_a_mask_is_drawn_once_for_each_sample_and_head():
    per_head = Mask.from_tensor(torch.tensor([True, False]).view(1, 2, 1, 1))
    assert padding([1, 2]).draw(2, 2) == "batch 0\n1 .\n1 .\nbatch 1\n1 1\n1 1"
    assert (padding([1, 2]) & per_head).draw(1, 2) == (
        "batch 0, head 0\n1 .\nbatch 0, head 1\n. .\nbatch 1, head 0\n1 1\nbatch 1, head 1\n. ."
    )


def test_empty_rows_come_from_the_rules_where_they_guarantee_a_key(monkeypatch):
    def refuse(*_):
        raise AssertionError("a tensor was made")

    monkeypatch.setattr(Mask, "_answer", refuse)
    ids = torch.tensor([[1, 1, 2, 2]] * 2)
    for sure in (
        causal(),
        causal("bottom-right"),
        causal() & padding([3, 2]),
        masks.documents(ids) & causal() & masks.sliding_window(2),
        masks.chunked(2) & masks.packed([0, 1, 4]),
        masks.prefix_lm([1, 2]) & padding([1, 1]),
        padding([1, 2], side="left"),
        padding([4, 4]) & masks.dilated(2, 2),
        (padding([0, 1]) & ~causal()) | causal(),
    ):
        assert sure.empty_rows(4, 4) == []
    with_cache = masks.documents(ids, "bottom-right") & masks.sliding_window(2, corner="bottom-right")
    assert (with_cache & causal("bottom-right") & padding(4)).empty_rows(2, 4) == []
    with pytest.raises(AssertionError, match="a tensor was made"):
        padding([0, 1]).empty_rows(4, 4)


LEAVES = [
    *[
        build(corner)
        for corner in ("top-left", "bottom-right")
        for build in (
            causal,
            lambda corner: masks.sliding_window(1, corner=corner),
            lambda corner: masks.sliding_window(0, "lookback", corner),
            lambda corner: masks.sliding_window(0, "each side", corner),
            lambda corner: masks.dilated(1, 2, corner),
            lambda corner: masks.prefix_lm(0, corner),
            lambda corner: masks.prefix_lm([1, 0], corner),
            lambda corner: masks.prefix_lm(1, corner),
            lambda corner: masks.chunked(1, "own chunk", corner),
            lambda corner: masks.chunked(2, corner=corner),
            lambda corner: masks.chunked(1, "own and earlier chunks", corner),
            lambda corner: masks.packed([0, 1, 3], corner),
            lambda corner: masks.documents(torch.tensor([[1, 2, 3], [1, 1, 2]]), corner),
        )
    ],
    *[padding(lengths, side) for lengths in (0, 1, 3, [0, 2], [2, 1]) for side in ("right", "left")],
    masks.padding_of(torch.tensor([[0, 1, 1]])),
    padding(1) | padding(1, side="left"),
    causal() & causal("bottom-right"),
    ~padding(1),
]


@pytest.mark.parametrize("mask", LEAVES, ids=lambda value: "" if callable(value) else repr(value))
def test_a_key_that_no_query_is_said_to_miss_is_missed_by_none(mask):
    for q_len, k_len in [(q, k) for q in range(1, 6) for k in range(1, 6)]:
        try:
            dense = mask.dense(q_len, k_len)
        except SoftlookupError:  # the lengths do not fit this mask
            continue
        for name in mask._always_sees(q_len, k_len):
            for i in range(q_len):
                shift = k_len - q_len if name.endswith("bottom-right") else 0
                key = {"first key": 0, "last key": k_len - 1}.get(name, i + shift)
                assert 0 <= key < k_len, name
                assert dense[:, :, i, key].all(), name
        assert mask.empty_rows(q_len, k_len) == [tuple(row) for row in (~dense.any(-1)).nonzero().tolist()]


def test_empty_rows_are_named_by_batch_head_and_query():
    assert causal("bottom-right").empty_rows(4, 2) == [(0, 0, 0), (0, 0, 1)]
    assert (causal() & padding([2, 1], side="left")).empty_rows(3, 3) == [(0, 0, 0), (1, 0, 0), (1, 0, 1)]
    assert padding([0, 2]).empty_rows(2, 2) == [(0, 0, 0), (0, 0, 1)]
    assert causal().empty_rows(2, 0) == [(0, 0, 0), (0, 0, 1)]
    many = causal("bottom-right").empty_rows(600, 2)  # more rows than are looked at in one go
    assert many == [(0, 0, query) for query in range(598)]
    both = (causal("bottom-right") & padding([2, 2])).empty_rows(600, 2)
    assert both == [(sample, 0, query) for sample in (0, 1) for query in range(598)]


def test_a_mask_without_queries_or_keys_has_an_empty_tensor():
    assert (causal() & padding(0)).dense(0, 0).shape == (1, 1, 0, 0)
    assert causal().draw(0, 3) == ""


def test_dense_goes_to_the_device_that_is_asked_for():
    ids = torch.tensor([[1, 2]])
    for mask in (
        causal(),
        masks.padding_of(ids) & causal(),
        Mask.from_tensor(ids > 1),
        padding([1]),
        masks.packed([0, 2]),
    ):
        assert mask.dense(1, 2, device="meta").device.type == "meta"
    assert (masks.alibi(2) & causal()).dense(2, 2, device="meta").device.type == "meta"


# ALiBi


def test_alibi_slopes_are_those_of_the_paper():
    assert slopes(8) == tuple(2.0**-n for n in range(1, 9))  # section 3: 1/2, 1/4, ... 1/256
    assert slopes(16) == pytest.approx(
        [2 ** (-n / 2) for n in range(1, 17)]
    )  # section 3: 2^-0.5, 2^-1, ... 2^-8
    assert slopes(1) == (2.0**-8,)
    assert slopes(12) == pytest.approx([2.0**-n for n in range(1, 9)] + [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5])
    for num_heads in range(1, 40):
        assert len(set(slopes(num_heads))) == num_heads
        assert all(0 < slope < 1 for slope in slopes(num_heads))


def test_alibi_favours_near_keys_and_hides_with_the_mask():
    dense = (masks.alibi(2) & causal()).dense(3, 3)
    assert dense.dtype == torch.float32
    assert dense.shape == (1, 2, 3, 3)
    assert dense[0, 0].tolist() == [[0, -math.inf, -math.inf], [-1 / 16, 0, -math.inf], [-2 / 16, -1 / 16, 0]]
    assert dense[0, 1, 2].tolist() == [-2 / 256, -1 / 256, 0]
    assert masks.alibi(2).dense(1, 3)[0, 1].tolist() == [[0, -1 / 256, -2 / 256]]
    assert masks.alibi(2, "bottom-right").dense(1, 3)[0, 1].tolist() == [[-2 / 256, -1 / 256, 0]]


def test_alibi_combines_with_masks_and_tensors_from_either_side():
    bits = torch.tensor([[True, False], [True, True]])
    for biased in (
        masks.alibi(2) & causal(),
        causal() & masks.alibi(2),
        masks.alibi(2) & bits,
        bits & masks.alibi(2),
    ):
        assert isinstance(biased, Bias)
        assert (biased.dense(2, 2) == -math.inf)[0, 0].tolist() == [[False, True], [False, False]]
    both = masks.alibi(2) & causal() & padding([1, 2], side="left")
    assert both.dense(2, 2).shape == (2, 2, 2, 2)
    assert both.empty_rows(2, 2) == [(0, 0, 0)]
    assert masks.alibi(2).empty_rows(2, 2) == []
    assert both == masks.alibi(2) & causal() & padding([1, 2], side="left")
    assert both.parameters["slope"] == (1 / 16, 1 / 256)


# Refusals

IDS = torch.zeros(2, 5, dtype=torch.int64)
REFUSED = [
    (lambda: causal("bottom"), ["`corner` cannot be used", "'top-left' or 'bottom-right'", "'bottom'"]),
    (lambda: masks.sliding_window(2, corner="left"), ["`corner`", "'left'"]),
    (lambda: padding([3, -1]), ["`lengths[1]`", "at least 0", "-1"]),
    (lambda: padding(-1), ["`lengths`", "at least 0", "-1"]),
    (lambda: padding([2.5]), ["`lengths[0]`", "a whole number", "float 2.5"]),
    (lambda: padding([True]), ["`lengths[0]`", "bool True"]),
    (lambda: padding([]), ["`lengths`", "non-empty list"]),
    (lambda: padding("3"), ["`lengths`", "list, tuple or tensor of integers", "'3'"]),
    (lambda: padding(torch.tensor([1.0])), ["`lengths`", "integers [B]", "float32 [1]"]),
    (lambda: padding(IDS), ["`lengths`", "integers [B]", "int64 [2, 5]"]),
    (lambda: padding([1], side="top"), ["`side`", "'right' or 'left'", "'top'"]),
    (
        lambda: padding([3, 6]).dense(5, 5),
        ["lengths[1] counts more keys", "at most T_k = 5", "6", "T_q=5, T_k=5"],
    ),
    (lambda: padding(6, side="left").dense(5, 5), ["lengths counts more keys", "at most T_k = 5"]),
    (lambda: masks.prefix_lm([1, 9]).dense(5, 5), ["prefix_lengths[1] counts more keys", "9"]),
    (lambda: masks.padding_of(torch.zeros(2, 5)), ["`token_ids`", "integer tensor [B, T]", "float32 [2, 5]"]),
    (lambda: masks.padding_of(IDS > 0), ["`token_ids`", "bool [2, 5]"]),
    (lambda: masks.padding_of(IDS[0]), ["`token_ids`", "int64 [5]", "token_ids[None] for a single sample"]),
    (lambda: masks.padding_of(IDS[None]), ["`token_ids`", "int64 [1, 2, 5]"]),
    (lambda: masks.padding_of([[1]]), ["`token_ids`", "list [[1]]", "torch.tensor(...)"]),
    (lambda: masks.padding_of(IDS, pad_id=None), ["`pad_id`", "whole number", "NoneType"]),
    (lambda: make_padding_allowed_mask(IDS.float()), ["`token_ids`", "float32"]),
    (lambda: make_causal_allowed_mask(0), ["`seq_len`", "at least 1", "0"]),
    (
        lambda: masks.padding_of(IDS).dense(4, 4),
        ["padding_of([2, 5]) does not fit", "T_k = 5", "T_k = 4", "B=2"],
    ),
    (lambda: masks.documents(IDS).dense(6, 5), ["outside it", "at most 5 queries", "T_q = 6"]),
    (lambda: masks.packed([0, 3]).dense(4, 3), ["outside it", "at most 3 queries", "T_q = 4"]),
    (lambda: masks.packed([0, 3]).dense(4, 4), ["packed([0, 3]) does not fit", "T_k = 3"]),
    (lambda: masks.packed([1, 3]), ["not cumulative", "[0, 3, 5]", "[1, 3]", "accumulate"]),
    (lambda: masks.packed([0, 3, 2]), ["not cumulative", "[0, 3, 2]"]),
    (lambda: masks.packed([0]), ["not cumulative", "[0]"]),
    (lambda: masks.sliding_window(0), ["`window`", "at least 1", "0"]),
    (lambda: masks.sliding_window(True), ["`window`", "bool True"]),
    (lambda: masks.sliding_window(-1, "lookback"), ["`window`", "at least 0", "-1"]),
    (lambda: masks.sliding_window(-1, "each side"), ["`window`", "at least 0"]),
    (
        lambda: masks.sliding_window(2, "tokens"),
        ["`counts`", "'keys' or 'lookback' or 'each side'", "'tokens'"],
    ),
    (lambda: masks.dilated(0, 1), ["`window`", "at least 1"]),
    (lambda: masks.dilated(1, 0), ["`step`", "at least 1"]),
    (lambda: masks.chunked(0), ["`chunk_size`", "at least 1"]),
    (lambda: masks.chunked(2, "mine"), ["`sees`", "'own chunk'", "'mine'"]),
    (lambda: masks.alibi(0), ["`num_heads`", "at least 1"]),
    (
        lambda: masks.visibility("window_count_keys"),
        ["no rule is called 'window_count_keys'", "window_counts_keys"],
    ),
    (lambda: masks.visibility("???"), ["no rule is called '???'", "one of causal_bottom_right, "]),
    (lambda: masks.visibility("causal_top_left", window=2), ["other parameters", "no parameter", "window"]),
    (lambda: masks.visibility("dilated_counts_keys", window=2), ["other parameters", "window, step, corner"]),
    (lambda: Mask.from_tensor(IDS), ["not a mask of allowed keys", "bool tensor", "int64", "tensor.bool()"]),
    (lambda: Mask.from_tensor([[True]]), ["not a mask of allowed keys", "list"]),
    (lambda: causal() & torch.zeros(2, 2), ["not a mask of allowed keys", "float32", "tensor == 0"]),
    (
        lambda: Mask.from_tensor((IDS > 0)[None]),
        ["two axes or four", "[1, 2, 5]", "tensor[:, None]", "tensor[None]"],
    ),
    (lambda: Mask.from_tensor(IDS[0] > 0), ["two axes or four", "[5]"]),
    (lambda: Mask.from_tensor(IDS > 0).dense(3, 5), ["does not fit", "T_q = 2", "T_q = 3"]),
    (
        lambda: padding([1, 2]) & padding([1, 2, 3]),
        ["do not fit each other", "same B", "B = 2 in padding([1, 2])", "B = 3"],
    ),
    (lambda: causal().dense(-1, 2), ["`T_q`", "at least 0", "-1"]),
    (lambda: causal().dense(2, 2.0), ["`T_k`", "whole number", "float 2.0"]),
    (lambda: causal().explain(5, 1, q_len=3, k_len=3), ["there is no query 5", "0 to 2", "T_q=3"]),
    (lambda: causal().explain(1, -1), ["there is no key -1", "0 to 1"]),
    (lambda: padding([1, 2]).explain(0, 0, batch=2), ["there is no sample 2", "0 to 1"]),
    (lambda: causal().explain(0, 0, head=-1), ["there is no head -1", "0 or more"]),
    (lambda: bool(causal()), ["neither true nor false", "& | ~"]),
    (
        lambda: masks.alibi(2) & Mask.from_tensor(torch.ones(1, 3, 2, 2).bool()),
        ["fit the bias", "H = 2", "H = 3"],
    ),
]


@pytest.mark.parametrize(
    ("request_", "words"), REFUSED, ids=[words[0] + " " + words[-1] for _, words in REFUSED]
)
def test_what_cannot_be_done_is_refused_in_words(request_, words):
    with pytest.raises(SoftlookupError) as refusal:
        request_()
    assert [word for word in words if word not in str(refusal.value)] == []


@pytest.mark.parametrize("other", [3, None, "causal"])
def test_only_masks_and_tensors_combine(other):
    for combine in (
        lambda: causal() & other,
        lambda: other & causal(),
        lambda: causal() | other,
        lambda: other | causal(),
        lambda: masks.alibi(2) & other,
    ):
        with pytest.raises(TypeError):
            combine()
