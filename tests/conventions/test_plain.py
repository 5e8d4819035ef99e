"""Masks of no library: what True and 1 say, three axes, and the words of what is refused."""

import math

import numpy
import pytest
import torch

from softlookup import SoftlookupError
from softlookup.conventions import convert
from softlookup.conventions.converting import read_mask
from softlookup.conventions.spelling import Sizes
from softlookup.masks import causal, padding

LOWER = torch.ones(3, 3).tril().bool()
FROM_LOWER = {
    "allowed_mask": LOWER,
    "blocked_mask": ~LOWER,
    "additive_bias": torch.zeros(3, 3).masked_fill(~LOWER, -math.inf),
    "1 = keep": LOWER.long(),
    "1 = hide": (~LOWER).float(),
}


def seen(mask, source, **sizes):
    return read_mask(mask, source, Sizes(**sizes)).mask.dense(3, 3)


@pytest.mark.parametrize("source", FROM_LOWER)
def test_each_means_causal_in_its_own_way(source):
    assert seen(FROM_LOWER[source], source).tolist() == [[LOWER.tolist()]]


@pytest.mark.parametrize(("source", "target"), [(a, b) for a in FROM_LOWER for b in FROM_LOWER])
def test_each_becomes_each_other(source, target):
    (written,) = convert(FROM_LOWER[source], source=source, target=target).values()
    assert torch.equal(written[0, 0].to(FROM_LOWER[target].dtype), FROM_LOWER[target])


def test_without_a_source_true_may_look():
    assert torch.equal(convert(LOWER, target="blocked_mask")["blocked_mask"][0, 0], ~LOWER)


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.float16, torch.float32, torch.bool])
def test_flags_may_be_of_any_dtype(dtype):
    assert seen(LOWER.to(dtype), "1 = keep").tolist() == [[LOWER.tolist()]]
    assert seen(LOWER.to(dtype), "1 = hide").tolist() == [[(~LOWER).tolist()]]


def test_arrays_and_lists_are_read_too():
    assert seen(LOWER.numpy(), "allowed_mask").tolist() == [[LOWER.tolist()]]
    assert seen(LOWER.numpy().astype(numpy.uint8), "1 = keep").tolist() == [[LOWER.tolist()]]
    assert seen(LOWER.tolist(), "allowed_mask").tolist() == [[LOWER.tolist()]]


def test_the_dtype_of_written_flags_can_be_asked_for():
    assert convert(causal(), target="1 = keep", q_len=2, k_len=2)["keep_ones"].dtype == torch.int64
    written = convert(causal(), target="1 = hide[float]", q_len=2, k_len=2)["hide_ones"]
    assert written.tolist() == [[[[0.0, 1.0], [0.0, 0.0]]]]


def test_an_axis_that_says_nothing_stays_one():
    written = convert(padding([1, 3]), target="1 = keep", q_len=1000, k_len=3)["keep_ones"]
    assert written.tolist() == [[[[1, 0, 0]]], [[[1, 1, 1]]]]


def test_a_bool_mask_is_read_and_written_without_a_copy():
    allowed = torch.rand(2, 1, 3, 3) > 0.5
    written = convert(allowed, target="allowed_mask")["allowed_mask"]
    assert written.data_ptr() == allowed.data_ptr()


TWO = torch.stack([LOWER, torch.ones(3, 3).bool()])  # [2, T_q, T_k]


@pytest.mark.parametrize(
    "sizes", [{"num_heads": 2}, {"num_heads": 2, "batch_size": 3}, {"batch_size": 5}, {"batch_size": 1}]
)
def test_three_axes_are_heads_when_a_size_says_so_or_they_cannot_be_samples(sizes):
    assert seen(TWO, "allowed_mask", **sizes).shape == (1, 2, 3, 3)


@pytest.mark.parametrize("sizes", [{"batch_size": 2}, {"num_heads": 4, "batch_size": 2}, {"num_heads": 4}])
def test_three_axes_are_samples_when_a_size_says_so_or_they_cannot_be_heads(sizes):
    assert seen(TWO, "allowed_mask", **sizes).shape == (2, 1, 3, 3)


@pytest.mark.parametrize("source", FROM_LOWER)
@pytest.mark.parametrize("sizes", [{}, {"num_heads": 2, "batch_size": 2}, {"num_heads": 4, "batch_size": 4}])
def test_three_axes_that_can_be_both_or_neither_are_refused(source, sizes):
    mask = torch.stack([FROM_LOWER[source]] * 2)
    with pytest.raises(SoftlookupError, match="can be samples or heads") as refusal:
        seen(mask, source, **sizes)
    assert "num_heads=2 or batch_size=2" in str(refusal.value)
    assert "[:, None] makes it samples" in str(refusal.value)


def test_three_axes_of_which_the_first_is_one_need_no_size():
    assert seen(TWO[:1], "allowed_mask").shape == (1, 1, 3, 3)
    assert seen(TWO[:1], "allowed_mask", num_heads=4, batch_size=2).shape == (1, 1, 3, 3)


@pytest.mark.parametrize("source", FROM_LOWER)
@pytest.mark.parametrize("shape", [(3,), (1, 1, 1, 3, 3)])
def test_one_axis_and_five_are_refused(source, shape):
    mask = FROM_LOWER[source].new_zeros(shape)
    with pytest.raises(SoftlookupError, match=r"two to four axes: \[T_q, T_k\]"):
        seen(mask, source)


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (torch.tensor([[0, 1], [2, 1]]), r"int64 \[2, 2\] that also has 2$"),
        (torch.tensor([[0.0, -1e9], [0.5, 1.0]]), r"float32 \[2, 2\] that also has -1e\+09, 0.5"),
        (torch.tensor([[0.0, math.nan]]), "that also has nan"),
        (torch.arange(8).view(2, 4), r"that also has 2, 3, 4, 5, \.\.\."),
    ],
)
@pytest.mark.parametrize("source", ["1 = keep", "1 = hide"])
def test_flags_that_are_neither_0_nor_1_are_refused_with_what_was_found(source, flags, found):
    with pytest.raises(SoftlookupError, match=f"(?m){found}") as refusal:
        seen(flags, source)
    assert ("additive_bias" in str(refusal.value)) == flags.dtype.is_floating_point


@pytest.mark.parametrize("source", ["allowed_mask", "blocked_mask"])
def test_numbers_do_not_say_which_of_them_shows(source):
    with pytest.raises(SoftlookupError, match="numbers do not say whether they show or hide") as refusal:
        seen(LOWER.long(), source)
    assert "source='1 = keep' or '1 = hide'" in str(refusal.value)
    assert "additive_bias" not in str(refusal.value)
    with pytest.raises(SoftlookupError, match="or 'additive_bias' for numbers added to scores"):
        seen(LOWER.float(), source)


@pytest.mark.parametrize("mask", [LOWER, LOWER.long()])
def test_what_is_added_to_scores_is_float(mask):
    with pytest.raises(SoftlookupError, match="floats: 0 to see, -inf or a large negative number"):
        seen(mask, "additive_bias")


def test_a_bias_of_no_library_is_lost_in_words():
    bias = torch.tensor([[0.0, -0.5], [-math.inf, 0.0]])
    with pytest.raises(SoftlookupError, match=r"read as additive_bias: the bias on visible keys, -0\.5 to 0"):
        convert(bias, source="additive_bias", target="allowed_mask")
