"""MLX, xformers and TransformerEngine: polarity, corners, windows, and the examples of their own pages."""

import math
from importlib.util import find_spec

import pytest
import torch

from softlookup import SoftlookupError
from softlookup.conventions import convert, find_convention
from softlookup.conventions.converting import read_mask, write_mask
from softlookup.conventions.drawing import draw_arguments
from softlookup.conventions.measuring import weights_by
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Mask, causal, documents, packed, padding, sliding_window

LOWER = torch.ones(4, 4).tril().bool()


def drawn(text):
    return [[sign == "1" for sign in line.split()] for line in text.split("/")]


def read_dense(arguments, source, q_len, k_len, batch_size=None):
    return read_mask(arguments, source, Sizes(q_len, k_len, batch_size)).mask.dense(q_len, k_len)


# MLX ------------------------------------------------------------------------------------------------------

needs_mlx = pytest.mark.skipif(find_spec("mlx") is None, reason="mlx not installed")


def test_mlx_says_causal_with_a_word_that_counts_from_the_last_key():
    assert convert(causal("bottom-right"), target="mlx", q_len=2, k_len=4) == {"mask": "causal"}
    assert read_mask("causal", "mlx", Sizes()).mask == causal("bottom-right")
    written = convert(causal(), target="mlx", q_len=2, k_len=4)["mask"]
    assert written.tolist() == [[[[True, False, False, False], [True, True, False, False]]]]


def test_mlx_needs_no_mask_where_nothing_is_hidden():
    assert convert(padding([4, 4]), target="mlx", q_len=4, k_len=4)["mask"].all()
    assert convert(sliding_window(3, "each side"), target="mlx", q_len=3, k_len=3) == {"mask": None}
    assert read_dense({"mask": None}, "mlx", 2, 2).all()


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ("padding", r"no mask of this name(.|\n)*expected: 'causal' or an array"),
        (LOWER.long(), "an integer mask does not say"),
        (LOWER[None, None, None], "at most four axes"),
    ],
)
def test_mlx_takes_no_other_word_no_integers_and_no_five_axes(mask, words):
    with pytest.raises(SoftlookupError, match=words):
        read_mask(mask, "mlx", Sizes(4, 4))


@needs_mlx
@pytest.mark.parametrize(("q_len", "k_len"), [(3, 3), (2, 5), (5, 3)])
def test_the_word_really_counts_from_the_last_key(q_len, k_len):
    sizes = Sizes(q_len, k_len, 1, 1)
    found = weights_by(find_convention("mlx")[0], {"mask": "causal"}, sizes)[0, 0] > 0
    wanted = causal("bottom-right").dense(q_len, k_len)[0, 0]
    seeing = wanted.any(-1)
    assert torch.equal(found[seeing], wanted[seeing])


@needs_mlx
def test_mlx_adds_integers_so_that_0_and_1_hide_nothing():
    import mlx.core as mx

    flags = mx.array(LOWER.int().numpy())
    assert (weights_by(find_convention("mlx")[0], {"mask": flags}, Sizes(4, 4, 1, 1)) > 0).all()


@needs_mlx
def test_arrays_of_mlx_are_read_also_in_bfloat16():
    import mlx.core as mx

    assert read_dense(mx.array(LOWER.numpy()), "mlx", 4, 4)[0, 0].tolist() == LOWER.tolist()
    bias = mx.array(torch.zeros(4, 4).masked_fill(~LOWER, -math.inf).numpy()).astype(mx.bfloat16)
    assert read_dense(bias, "mlx", 4, 4)[0, 0].tolist() == LOWER.tolist()


# xformers -------------------------------------------------------------------------------------------------

needs_xformers = pytest.mark.skipif(find_spec("xformers") is None, reason="xformers not installed")


def test_the_tensor_of_xformers_has_all_axes_in_full():
    written = convert(causal(), target="xformers[additive]", q_len=3, k_len=3, batch_size=2, num_heads=4)
    assert written["attn_bias"].shape == (2, 4, 3, 3)
    with pytest.raises(SoftlookupError, match="attn_bias needs num_heads"):
        convert(causal(), target="xformers[additive]", q_len=3, k_len=3, batch_size=2)


def test_a_tensor_of_three_axes_is_one_of_samples():
    bias = torch.zeros(2, 4, 4)
    bias[1] = bias[1].masked_fill(~LOWER, -math.inf)
    assert read_dense(bias, "xformers", 4, 4)[:, 0].tolist() == [[[True] * 4] * 4, LOWER.tolist()]


@pytest.mark.parametrize("bias", [LOWER, LOWER[None, None], torch.zeros(4, 4)])
def test_xformers_takes_no_flags_and_no_two_axes(bias):
    with pytest.raises(SoftlookupError, match=r"floats \[B, H, T_q, T_k\] or \[B, T_q, T_k\]"):
        read_mask(bias, "xformers", Sizes(4, 4))


@pytest.mark.skipif(find_spec("xformers") is not None, reason="xformers is installed")
def test_without_xformers_its_objects_are_asked_for_in_words():
    with pytest.raises(SoftlookupError, match="pip install xformers"):
        convert(causal(), target="xformers[object]", q_len=3, k_len=3)
    assert convert(sliding_window(3), target="xformers", q_len=1, k_len=1) == {"attn_bias": None}


def xformers_bias(name):
    import xformers.ops.fmha.attn_bias as classes

    return getattr(classes, name)


BOTH = causal() & padding([2, 4], "right")
CLASSES = {
    "LowerTriangularMask": (causal(), 4, 4),
    "LowerTriangularFromBottomRightMask": (causal("bottom-right"), 2, 4),
    "LowerTriangularFromBottomRightLocalAttentionMask": (sliding_window(2, corner="bottom-right"), 3, 4),
    "LocalAttentionFromBottomRightMask": (sliding_window(1, "each side"), 4, 4),
    "BlockDiagonalMask": (packed([0, 1, 4]), 4, 4),
    "BlockDiagonalCausalMask": (packed([0, 1, 4]) & causal(), 4, 4),
    "BlockDiagonalCausalLocalAttentionMask": (packed([0, 1, 4]) & sliding_window(2), 4, 4),
    "BlockDiagonalPaddedKeysMask": (padding([2, 4]), 3, 4),
    "BlockDiagonalCausalWithOffsetPaddedKeysMask": (causal("bottom-right") & padding([4, 3]), 1, 4),
    "BlockDiagonalGappyKeysMask": (packed([0, 1, 4]) & padding([2, 4]), 4, 4),
}


@needs_xformers
@pytest.mark.parametrize("name", CLASSES)
def test_the_class_that_kernels_know_is_written_and_makes_the_tensor_that_is_meant(name):
    mask, q_len, k_len = CLASSES[name]
    B = mask.sizes["B"] or 1
    bias = convert(mask, target="xformers[object]", q_len=q_len, k_len=k_len)["attn_bias"]
    expected = {"BlockDiagonalCausalWithOffsetPaddedKeysMask": {"BlockDiagonalPaddedKeysMask"}}
    assert type(bias).__name__ in expected.get(name, {name})
    in_a_row = B if name.startswith("Block") else 1
    made = bias.materialize((1, 1, in_a_row * q_len, in_a_row * k_len))[0, 0] == 0
    assert torch.equal(made, torch.block_diag(*mask.dense(q_len, k_len)[:, 0].byte()).bool())


@needs_xformers
@pytest.mark.parametrize(
    ("q_len", "k_len", "drawing"),
    [
        (4, 4, "1 1 1 0 / 1 1 1 1 / 0 1 1 1 / 0 0 1 1"),
        (4, 5, "1 1 1 1 0 / 0 1 1 1 1 / 0 0 1 1 1 / 0 0 0 1 1"),
    ],
)
def test_a_local_bias_is_read_as_its_page_draws_it(q_len, k_len, drawing):
    bias = xformers_bias("LocalAttentionFromBottomRightMask")(window_left=1, window_right=2)
    assert read_dense(bias, "xformers", q_len, k_len)[0, 0].tolist() == drawn(drawing)


@needs_xformers
def test_objects_of_one_row_are_read_for_the_samples_that_lie_in_it():
    padded = xformers_bias("BlockDiagonalPaddedKeysMask").from_seqlens([2, 2], 3, [1, 3])
    assert read_dense(padded, "xformers", 4, 6)[0, 0].tolist() == drawn(
        "1 0 0 0 0 0 / 1 0 0 0 0 0 / 0 0 0 1 1 1 / 0 0 0 1 1 1"
    )
    assert torch.equal(
        read_dense(padded, "xformers", 2, 3, 2), padding([1, 3]).dense(2, 3).expand(2, 1, 2, 3)
    )
    with pytest.raises(SoftlookupError, match="blocks do not fit the batch"):
        read_dense(padded, "xformers", 3, 3, 2)


@needs_xformers
def test_samples_that_see_each_other_are_no_batch():
    one = xformers_bias("BlockDiagonalMask").from_seqlens([3, 1])
    with pytest.raises(SoftlookupError, match="2 samples of 2 queries and 2 keys in a row"):
        read_dense(one, "xformers", 2, 2, 2)


@needs_xformers
def test_causal_with_a_bias_loses_the_bias_in_words():
    bias = xformers_bias("LowerTriangularMaskWithTensorBias")(torch.full((1, 1, 4, 4), 0.5))
    reading = read_mask(bias, "xformers", Sizes(4, 4))
    assert reading.mask.dense(4, 4)[0, 0].tolist() == LOWER.tolist()
    assert "the bias on visible keys, 0 to 0.5" in reading.lost[0]


class PagedKeys:
    """Looks like their classes about pages."""

    block_tables = None

    def materialize(self, shape):
        raise AssertionError("pages are not asked")


def test_pages_are_refused_in_words():
    with pytest.raises(SoftlookupError, match="where keys lie in pages"):
        read_mask(PagedKeys(), "xformers", Sizes(4, 4))


# TransformerEngine ----------------------------------------------------------------------------------------

TE = "TransformerEngine"


def test_true_is_masked_out_in_transformer_engine():
    """As its issue 614 found: the opposite of F.scaled_dot_product_attention."""
    written = convert(LOWER, source="sdpa", target=TE)
    assert written["attn_mask_type"] == "arbitrary"
    assert written["attention_mask"][0, 0].tolist() == (~LOWER).tolist()
    assert convert(written, source=TE, target="sdpa")["attn_mask"][0, 0].tolist() == LOWER.tolist()


# The worked example of its get_full_mask: padding of a cross-attention, and what comes out (1 = hidden).
EXAMPLE_QUERIES = torch.tensor([[0, 0, 1, 1], [0, 0, 0, 0]]).bool()[:, None, None]
EXAMPLE_KEYS = torch.tensor([[0, 0, 0, 1], [0, 1, 1, 1]]).bool()[:, None, None]
EXAMPLE_HIDDEN = ["0 0 0 1 / 0 0 0 1 / 1 1 1 1 / 1 1 1 1", "0 1 1 1 / 0 1 1 1 / 0 1 1 1 / 0 1 1 1"]


def test_padding_of_queries_and_keys_is_read_as_its_source_works_it_out():
    arguments = {"attn_mask_type": "padding", "attention_mask": (EXAMPLE_QUERIES, EXAMPLE_KEYS)}
    assert (~read_dense(arguments, TE, 4, 4))[:, 0].tolist() == [drawn(it) for it in EXAMPLE_HIDDEN]


def test_one_tensor_of_padding_hides_queries_and_keys():
    arguments = {"attn_mask_type": "padding", "attention_mask": EXAMPLE_QUERIES}
    found = read_dense(arguments, TE, 4, 4)[:, 0]
    assert found.tolist() == [drawn("1 1 0 0 / 1 1 0 0 / 0 0 0 0 / 0 0 0 0"), [[True] * 4] * 4]


def test_with_padding_the_corner_is_the_last_real_key():
    arguments = {
        "attn_mask_type": "padding_causal_bottom_right",
        "attention_mask": (EXAMPLE_QUERIES, EXAMPLE_KEYS),
    }
    found = read_dense(arguments, TE, 4, 4)[:, 0]
    assert found.tolist() == [
        drawn("1 1 0 0 / 1 1 1 0 / 0 0 0 0 / 0 0 0 0"),
        drawn("0 0 0 0 / 0 0 0 0 / 0 0 0 0 / 1 0 0 0"),
    ]


@pytest.mark.parametrize(
    ("mask", "q_len", "arguments"),
    [
        (causal(), 4, {"attn_mask_type": "causal"}),
        (causal(), 2, {"attn_mask_type": "causal"}),
        (causal("bottom-right"), 2, {"attn_mask_type": "causal_bottom_right"}),
        (sliding_window(3), 4, {"attn_mask_type": "causal", "window_size": (2, 0)}),
        (
            sliding_window(2, "lookback", "bottom-right"),
            3,
            {"attn_mask_type": "causal_bottom_right", "window_size": (2, 0)},
        ),
        (
            sliding_window(1, "each side"),
            4,
            {"attn_mask_type": "no_mask", "window_size": (1, 1), "bottom_right_diagonal": False},
        ),
        (
            sliding_window(1, "each side", "bottom-right"),
            3,
            {"attn_mask_type": "no_mask", "window_size": (0, 2), "bottom_right_diagonal": False},
        ),
        (sliding_window(4, "each side"), 4, {"attn_mask_type": "no_mask"}),
    ],
)
def test_bands_are_types_and_windows_of_keys_beside_the_own_one(mask, q_len, arguments):
    assert convert(mask, target=TE, q_len=q_len, k_len=4) == arguments


def test_causal_padding_keeps_the_rows_of_padded_queries():
    written = convert(causal() & padding([1, 3]), target=TE, q_len=2, k_len=3)
    assert written["attn_mask_type"] == "padding_causal"
    queries, keys = written["attention_mask"]
    assert queries.shape == (2, 1, 1, 2)
    assert not queries.any()
    assert keys.tolist() == [[[[False, True, True]]], [[[False, False, False]]]]


def test_the_last_key_of_ours_is_no_last_real_key_so_the_band_is_a_window_from_the_first():
    mask = causal("bottom-right") & padding([1, 4])
    written = convert(mask, target=TE, q_len=2, k_len=4)
    assert (written["attn_mask_type"], written["window_size"]) == ("padding", (1, 2))
    assert written["bottom_right_diagonal"] is False
    assert torch.equal(read_dense(written, TE, 2, 4), mask.dense(2, 4))


def test_left_padding_is_an_arbitrary_mask_because_kernels_count():
    mask = padding([1, 3], "left")
    assert convert(mask, target=TE, q_len=3, k_len=3)["attn_mask_type"] == "arbitrary"
    hidden = ~mask.dense(1, 3)
    with pytest.raises(SoftlookupError, match="padding stands before a real token") as refusal:
        read_mask({"attn_mask_type": "padding", "attention_mask": hidden}, TE, Sizes(3, 3))
    assert "attn_mask_type='arbitrary'" in str(refusal.value)


def test_documents_are_an_arbitrary_mask():
    written = convert(documents(torch.tensor([[0, 0, 1]])), target=TE, q_len=3, k_len=3)
    assert written["attn_mask_type"] == "arbitrary"
    with pytest.raises(SoftlookupError, match="lost: everything but a band and padding at the end"):
        convert(packed([0, 2, 3]), target=f"{TE}[type]", q_len=3, k_len=3)


def test_without_a_type_it_is_causal_and_with_a_mask_arbitrary():
    assert read_mask({}, TE, Sizes()).mask == causal()
    assert read_dense({"attention_mask": ~LOWER}, TE, 4, 4)[0, 0].tolist() == LOWER.tolist()
    comma = {"attn_mask_type": "causal,padding", "attention_mask": EXAMPLE_KEYS}
    assert torch.equal(
        read_dense(comma, TE, 4, 4), read_dense(comma | {"attn_mask_type": "padding_causal"}, TE, 4, 4)
    )


def test_a_window_without_causal_counts_from_the_last_key_unless_said():
    window = {"attn_mask_type": "no_mask", "window_size": (0, 1)}
    assert read_dense(window, TE, 2, 4)[0, 0].tolist() == drawn("0 0 1 1 / 0 0 0 1")
    said = window | {"bottom_right_diagonal": False}
    assert read_dense(said, TE, 2, 4)[0, 0].tolist() == drawn("1 1 0 0 / 0 1 1 0")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"attn_mask_type": "padding_casual"}, "no such attn_mask_type(.|\n)*did you mean padding_causal"),
        ({"attn_mask_type": "padding"}, "this type needs a mask(.|\n)*True = masked out"),
        ({"attn_mask_type": "arbitrary"}, "got:      attn_mask_type='arbitrary' alone"),
        ({"attention_mask": LOWER.long()}, "bool of at most four axes, True = masked out(.|\n)*int64"),
        ({"attn_mask_type": "padding", "attention_mask": LOWER}, r"bool \[B, 1, 1, T\] for padding"),
        ({"attn_mask_type": "padding", "attention_mask": (LOWER,) * 3}, "got:      3 tensors"),
        ({"attn_mask_type": "no_mask", "window_size": (2, -1)}, r"open on one side(.|\n)*\(2, -1\)"),
    ],
)
def test_what_transformer_engine_does_not_take_is_refused(arguments, words):
    with pytest.raises(SoftlookupError, match=words):
        read_mask(arguments, TE, Sizes(4, 4))


def test_both_tensors_of_a_tuple_are_drawn():
    written = write_mask(padding([1, 2]), TE, Sizes(1, 2, 2, 1))
    assert draw_arguments(find_convention(TE)[0], written.arguments) == (
        "attn_mask_type='padding'\n"
        "attention_mask[0]: bool [2, 1, 1, 1], 1 = hidden\n[0, 0]\n.\n[1, 0]\n.\n"
        "attention_mask[1]: bool [2, 1, 1, 2], 1 = hidden\n[0, 0]\n. 1\n[1, 0]\n. ."
    )


def test_what_differs_between_samples_and_heads_is_said_by_all_three():
    allowed = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)) > 0.5
    for name in ("mlx", "xformers", TE):
        written = write_mask(Mask.from_tensor(allowed), name, Sizes(4, 4, 2, 3))
        assert not written.lost
        assert torch.equal(read_mask(written.arguments, name, Sizes(4, 4, 2, 3)).mask.dense(4, 4), allowed)
