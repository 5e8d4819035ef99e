"""read(write(m)) == m for every convention; what it cannot say is refused in words."""

import itertools

import pytest
import torch

from softlookup import SoftlookupError
from softlookup.conventions import conventions
from softlookup.conventions.converting import read_mask, sizes_of, write_mask
from softlookup.conventions.drawing import draw_arguments
from softlookup.conventions.spelling import EXAMPLE, Sizes
from softlookup.conventions.tensors import given
from softlookup.masks.expression import read_mask_expression

B, H = 2, 2
CONVENTIONS = {it.name: it for it in conventions()}


def every_mask(q_len: int, k_len: int) -> torch.Tensor:
    """All bool [q_len, k_len], as [masks, q_len, k_len]."""
    flags = itertools.product([False, True], repeat=q_len * k_len)
    return torch.tensor(list(flags)).view(-1, q_len, k_len)


def masks_of_all_kinds(q_len: int, k_len: int):
    """Every mask alone, by sample, by head, and by both: samples and heads get different ones."""
    every = every_mask(q_len, k_len)
    other = every.roll(1, 0), every.roll(7 % len(every), 0), every.flip(0)
    yield from every[:, None, None]
    yield from torch.stack([every, other[0]], 1)[:, :, None]  # [masks, B, 1, T_q, T_k]
    yield from torch.stack([every, other[1]], 1)[:, None]  # [masks, 1, H, T_q, T_k]
    yield from torch.stack([every, *other], 1).view(-1, B, H, q_len, k_len)


def spoken(name: str, form: str):
    return f"{name}[{form}]"


EVERY_FORM = [spoken(it.name, form) for it in conventions() for form in it.forms]


#: Forms that are asked position by position, which takes a hundred times as long as reading a tensor.
ASKED_BY_POSITION = [
    it
    for it in EVERY_FORM
    if it.startswith(("flex_attention", "transformers flex", "transformers mask_function"))
    or it.endswith("varlen_attn[rows]")
    or it.endswith("varlen[rows]")
]


@pytest.mark.parametrize("form", EVERY_FORM)
def test_what_is_written_without_loss_is_read_back(form):
    longest = 2 if form in ASKED_BY_POSITION else 3
    assert_all_read_back(form, range(1, longest + 1))


@pytest.mark.long
@pytest.mark.parametrize("form", ASKED_BY_POSITION)
def test_what_is_written_without_loss_is_read_back_of_three_queries_too(form):
    assert_all_read_back(form, (3,))


def assert_all_read_back(form, q_lens):
    for q_len, k_len in itertools.product(q_lens, (1, 2, 3)):
        sizes = Sizes(q_len, k_len, B, H)
        for allowed in masks_of_all_kinds(q_len, k_len):
            check_round_trip(form, given(allowed), sizes)


STRUCTURED = [
    "causal",
    'causal("bottom-right")',
    "padding([3, 6])",
    'padding([3, 6], "left")',
    "causal & padding([3, 6])",
    'causal & padding([3, 6], "left")',
    "sliding_window(3)",
    'sliding_window(2, "each side")',
    'sliding_window(2, "lookback") & padding([3, 6])',
    'sliding_window(3, corner="bottom-right")',
    "documents([[0, 0, 1, 1, 1, 2], [4, 4, 4, 4, 4, 4]])",
    "packed([0, 2, 6])",
    "packed([0, 2, 6]) & causal",
    "prefix_lm([1, 4])",
    "chunked(2)",
    "~causal",
    "causal | padding([1, 2])",
]


@pytest.mark.parametrize("form", EVERY_FORM)
@pytest.mark.parametrize("words", STRUCTURED)
def test_structured_masks_are_read_back(form, words):
    mask = read_mask_expression(words)
    for q_len in (6, 4, 1):
        if q_len == 6 or not words.startswith(("documents", "packed")):
            check_round_trip(form, mask, Sizes(q_len, 6, B, H))


def check_round_trip(form, mask, sizes):
    written = write_mask(mask, form, sizes)
    read = read_mask(written.arguments, form, sizes)
    assert not read.lost
    wanted = dense(mask, sizes)
    found = dense(read.mask, sizes)
    if not written.lost:
        assert torch.equal(found, wanted), (form, sizes, mask)
    else:
        assert (found | ~wanted).all(), "a lossy writing hides what the mask shows"


def dense(mask, sizes):
    sizes_of(mask, sizes)
    return mask.dense(sizes.q_len, sizes.k_len).expand(B, H, -1, -1)


@pytest.mark.parametrize("form", CONVENTIONS)
def test_a_loss_is_a_real_one(form):
    """Whatever is called lost differs from the mask when read back: no mask is refused for nothing."""
    sizes = Sizes(2, 2, B, H)
    for allowed in masks_of_all_kinds(2, 2):
        written = write_mask(given(allowed), form, sizes)
        if written.lost:
            read = read_mask(written.arguments, form, sizes)
            assert not torch.equal(dense(read.mask, sizes), dense(given(allowed), sizes)), (form, allowed)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_the_page_draws_what_is_written(name):
    mask = read_mask_expression(EXAMPLE)
    written = write_mask(mask, name, Sizes(3, 3, 2, 1))
    assert CONVENTIONS[name].drawing == draw_arguments(CONVENTIONS[name], written.arguments)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_a_page_says_whose_words_and_what_is_lost(name):
    for title in ("In its words", "Lost when written", "Lost when read"):
        assert CONVENTIONS[name].part(title)


@pytest.mark.parametrize("name", CONVENTIONS)
def test_what_the_api_does_not_take_is_refused(name):
    with pytest.raises(SoftlookupError, match="no argument"):
        read_mask({"no_such_argument": torch.ones(2, 2)}, name, Sizes(2, 2))
