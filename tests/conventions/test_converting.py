"""convert: the cheapest spelling, refusals in words, and nothing of the user's changed."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup import SoftlookupError
from softlookup.conventions import conventions, convert, find_convention
from softlookup.conventions.converting import read_mask, write_mask
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Mask, alibi, causal, padding, sliding_window

SDPA = "F.scaled_dot_product_attention"
LOWER = torch.ones(4, 4).tril().bool()


def test_causal_alone_is_a_flag_and_no_tensor():
    assert convert(causal(), target=SDPA, q_len=9, k_len=9) == {"is_causal": True}


def test_the_other_corner_is_no_flag_of_torch_unless_both_are_the_same():
    assert convert(causal("bottom-right"), target=SDPA, q_len=9, k_len=9) == {"is_causal": True}
    written = convert(causal("bottom-right"), target=SDPA, q_len=2, k_len=4)
    assert written["attn_mask"].tolist() == [[[[True, True, True, False], [True] * 4]]]


def test_padding_is_one_row_of_keys_for_each_sample():
    written = convert(padding([2, 3]), target=SDPA, q_len=1000, k_len=3)
    assert written["attn_mask"].shape == (2, 1, 1, 3)


def test_a_window_as_long_as_the_sequence_is_plain_causal():
    assert convert(sliding_window(9), target=SDPA, q_len=9, k_len=9) == {"is_causal": True}


def test_a_form_can_be_asked_for():
    written = convert(causal(), target=f"{SDPA}[additive]", q_len=2, k_len=2)
    assert written["attn_mask"].tolist() == [[[[0.0, -math.inf], [0.0, 0.0]]]]


def test_what_would_be_lost_is_said_and_left_out_on_request():
    mask = causal() & padding([2, 3])
    with pytest.raises(SoftlookupError, match="lost: everything but the causal rule") as refusal:
        convert(mask, target=f"{SDPA}[is_causal]", q_len=3, k_len=3)
    assert "lossy=True" in str(refusal.value)
    written = convert(mask, target=f"{SDPA}[is_causal]", q_len=3, k_len=3, lossy=True)
    assert written == {"is_causal": True}


def test_a_bias_is_lost_in_words():
    bias = torch.tensor([[0.0, -0.5], [-math.inf, 0.0]])
    with pytest.raises(SoftlookupError, match=r"the bias on visible keys, -0\.5 to 0"):
        convert(bias, source=SDPA, target=SDPA)
    written = convert(bias, source=SDPA, target=SDPA, lossy=True)
    assert written["attn_mask"].tolist() == [[[[True, True], [False, True]]]]


def test_alibi_is_a_bias_and_its_mask_is_written():
    with pytest.raises(SoftlookupError, match=r"the bias alibi\(2\)"):
        convert(alibi(2) & causal(), target=SDPA, q_len=3, k_len=3)
    written = convert(alibi(2) & causal(), target=SDPA, q_len=3, k_len=3, lossy=True)
    assert written == {"is_causal": True}


def test_0_1_flags_that_would_be_added_are_pointed_out():
    with pytest.raises(SoftlookupError, match="0/1 flags"):
        convert(LOWER.float(), source=SDPA, target=SDPA)


@pytest.mark.parametrize("fill", [-math.inf, -1e9, -1e4, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_every_usual_fill_hides(fill, dtype):
    bias = torch.zeros(4, 4).masked_fill(~LOWER, fill).to(dtype)
    written = convert(bias, source=SDPA, target=f"{SDPA}[bool]")
    assert torch.equal(written["attn_mask"][0, 0], LOWER)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nan_and_plus_infinity_hide_nothing_and_are_refused(bad):
    with pytest.raises(SoftlookupError, match="nan or"):
        convert(torch.tensor([[0.0, bad]]), source=SDPA, target=SDPA)


def test_integers_do_not_say_what_they_mean():
    with pytest.raises(SoftlookupError, match=r"source='1 = keep'"):
        convert(LOWER.long(), source=SDPA, target=SDPA)


def test_unknown_names_get_the_nearest():
    with pytest.raises(SoftlookupError, match="did you mean"):
        convert(causal(), target="F.scaled_dot_product_atention", q_len=2, k_len=2)
    with pytest.raises(SoftlookupError, match="has no form 'dense'"):
        find_convention("sdpa[dense]")


def test_lengths_that_nobody_said_are_asked_for():
    with pytest.raises(SoftlookupError, match="q_len="):
        convert(causal(), target=SDPA)


def test_sizes_that_contradict_the_mask_are_refused():
    with pytest.raises(SoftlookupError, match="for another size"):
        convert(Mask.from_tensor(LOWER), target=SDPA, k_len=5)


def test_a_mask_and_the_flag_exclude_each_other_as_in_torch():
    with pytest.raises(SoftlookupError, match="exclude each other"):
        convert({"attn_mask": LOWER, "is_causal": True}, source=SDPA, target=SDPA)


@pytest.mark.parametrize("nothing", [None, "causal", object(), 3])
def test_what_is_no_mask_is_refused(nothing):
    with pytest.raises(SoftlookupError):
        convert(nothing, source="1 = keep", target=SDPA)


ALL_NAMES = [it.name for it in conventions()]


@pytest.mark.parametrize("name", ALL_NAMES)
def test_every_convention_answers_to_all_its_names(name):
    convention, _ = find_convention(name)
    assert all(find_convention(also)[0] is convention for also in (*convention.also, convention.file))


def test_no_two_conventions_share_a_name():
    names = [spelled.casefold() for it in conventions() for spelled in {it.name, *it.also, it.file}]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", ALL_NAMES)
def test_the_mask_of_the_user_is_not_changed(name):
    allowed = torch.rand(2, 2, 5, 6) > 0.3
    before = allowed.clone()
    write_mask(Mask.from_tensor(allowed), name, Sizes(5, 6, 2, 2))
    assert torch.equal(allowed, before)


@st.composite
def dense_masks(draw):
    """A mask of any sizes to 9, for one or two samples and heads."""
    shape = [draw(st.integers(1, high)) for high in (2, 2, 9, 9)]
    seed = draw(st.integers(0, 2**31))
    visible = draw(st.sampled_from([0.0, 0.2, 0.8, 1.0]))
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < visible


@pytest.mark.parametrize("name", ALL_NAMES)
@given(allowed=dense_masks())
@settings(max_examples=40, deadline=None)
def test_larger_masks_come_back_as_they_were(name, allowed):
    sizes = Sizes(*allowed.shape[2:], *allowed.shape[:2])
    written = write_mask(Mask.from_tensor(allowed), name, sizes)
    read = read_mask(written.arguments, name, sizes).mask.dense(*allowed.shape[2:])
    if written.lost:
        assert (read | ~allowed).all()
    else:
        assert torch.equal(read.expand_as(allowed), allowed)
