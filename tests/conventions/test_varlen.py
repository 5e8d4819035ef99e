"""Documents in one row: corners, windows, what unpadding keeps and loses, and rows given by hand."""

import pytest
import torch

from softlookup import SoftlookupError
from softlookup.conventions import convert
from softlookup.conventions.converting import read_mask, write_mask
from softlookup.conventions.packed_lengths import document_lengths
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Mask, causal, chunked, documents, packed, padding, sliding_window

FLASH = "flash_attn varlen"
TORCH = "torch varlen_attn"


def seen(q_bounds, k_bounds=None, batch_size=None, q_len=None, k_len=None, **flags):
    arguments = {"cu_seqlens_q": q_bounds, "cu_seqlens_k": k_bounds, **flags}
    return read_mask(arguments, FLASH, Sizes(q_len, k_len, batch_size)).mask


def drawn(text):
    return [[sign == "1" for sign in line.split()] for line in text.split("/")]


def flash(mask, q_len, k_len, **more):
    return convert(mask, target=FLASH, q_len=q_len, k_len=k_len, **more)


# The worked examples of flash-attention's own page on the causal flag.
@pytest.mark.parametrize(
    ("q_len", "k_len", "drawing"),
    [(2, 5, "1 1 1 1 0 / 1 1 1 1 1"), (5, 2, "0 0 / 0 0 / 0 0 / 1 0 / 1 1")],
)
def test_causal_counts_from_the_last_key_as_its_page_draws_it(q_len, k_len, drawing):
    mask = seen([0, q_len], [0, k_len], causal=True)
    assert mask.dense(q_len, k_len)[0, 0].tolist() == drawn(drawing)


@pytest.mark.parametrize(("q_len", "k_len"), [(5, 5), (2, 5), (5, 2), (1, 4)])
@pytest.mark.parametrize("window", [(1, 0), (0, 0), (0, 2), (1, 1), (2, 1), (-1, 1), (2, -1), (-1, -1)])
def test_a_window_counts_keys_beside_its_own_from_the_last_key(q_len, k_len, window):
    left, right = window
    found = seen([0, q_len], [0, k_len], window_size=window).dense(q_len, k_len)[0, 0]
    for i in range(q_len):
        own = i + k_len - q_len
        wanted = [(left < 0 or own - left <= j) and (right < 0 or j <= own + right) for j in range(k_len)]
        assert found[i].tolist() == wanted


def test_causal_makes_the_right_side_zero():
    assert seen([0, 5], causal=True, window_size=(2, 3)) == sliding_window(2, "lookback")


def test_samples_in_a_row_see_their_own_keys_only():
    found = seen([0, 1, 3], [0, 2, 3]).dense(3, 3)
    assert found[0, 0].tolist() == drawn("1 1 0 / 0 0 1 / 0 0 1")


def test_the_same_row_is_read_for_the_samples_of_a_batch():
    mask = seen([0, 3, 6], [0, 1, 4], batch_size=2, q_len=3, k_len=3)
    assert mask == padding([1, 3])


def test_each_sample_has_a_corner_of_its_own():
    mask = seen([0, 2, 4], [0, 3, 4], batch_size=2, q_len=2, k_len=3, causal=True)
    found = mask.dense(2, 3)
    assert found[0, 0].tolist() == drawn("1 1 0 / 1 1 1")
    assert found[1, 0].tolist() == drawn("0 0 0 / 1 0 0")


def test_packed_documents_are_bounds_and_causal_is_a_flag():
    written = flash(packed([0, 2, 5]) & causal(), 5, 5)
    assert written["cu_seqlens_q"].tolist() == written["cu_seqlens_k"].tolist() == [0, 2, 5]
    assert written["cu_seqlens_q"].dtype == torch.int32
    assert (written["max_seqlen_q"], written["max_seqlen_k"], written["causal"]) == (3, 3, True)
    assert "window_size" not in written
    assert read_mask(written, FLASH, Sizes(5, 5)).mask == packed([0, 2, 5]) & causal()


def test_documents_of_several_samples_lie_behind_each_other():
    ids = torch.tensor([[0, 0, 1, 1], [7, 7, 7, 7]])
    assert flash(documents(ids), 4, 4)["cu_seqlens_q"].tolist() == [0, 2, 4, 8]


def test_a_batch_repeats_the_documents_of_one_row():
    assert flash(packed([0, 1, 4]), 4, 4, batch_size=2)["cu_seqlens_k"].tolist() == [0, 1, 4, 5, 8]


def test_padding_alone_keeps_all_queries_and_drops_keys():
    written = flash(padding([1, 3]), 4, 3)
    assert written["cu_seqlens_q"].tolist() == [0, 4, 8]
    assert written["cu_seqlens_k"].tolist() == [0, 1, 4]
    assert (written["max_seqlen_q"], written["max_seqlen_k"], written["causal"]) == (4, 3, False)


def test_padding_cuts_the_keys_of_the_last_documents():
    written = flash(packed([0, 2, 5, 6]) & padding([3, 6]), 6, 6)
    assert written["cu_seqlens_q"].tolist() == [0, 2, 5, 6, 8, 11, 12]
    assert written["cu_seqlens_k"].tolist() == [0, 2, 3, 3, 5, 8, 9]


@pytest.mark.parametrize(
    ("mask", "flags"),
    [
        (sliding_window(3), (True, (2, 0))),
        (sliding_window(2, "lookback"), (True, (2, 0))),
        (sliding_window(2, "each side"), (False, (2, 2))),
    ],
)
def test_a_window_of_ours_becomes_keys_beside_its_own(mask, flags):
    written = flash(mask, 6, 6)
    assert (written["causal"], written["window_size"]) == flags


def test_with_fewer_queries_the_corner_is_the_last_key():
    assert flash(causal("bottom-right"), 2, 5)["causal"]
    with pytest.raises(SoftlookupError, match="lost: the band: it can only be counted from the last key"):
        flash(causal(), 2, 5)


def test_a_window_that_looks_ahead_can_stand_for_the_other_corner():
    """Causal from the first key, with more queries than keys: 3 - 2 = 1 behind the position from the end."""
    written = flash(causal(), 3, 2)
    assert (written["causal"], written["window_size"]) == (False, (-1, 1))
    assert seen([0, 3], [0, 2], window_size=(-1, 1)).dense(3, 2)[0, 0].tolist() == drawn("1 0 / 1 1 / 1 1")


def test_causal_padding_loses_the_rows_of_padded_queries_and_nothing_else():
    mask = causal() & padding([1, 3])
    with pytest.raises(SoftlookupError, match="lost: the queries behind each length") as refusal:
        flash(mask, 3, 3)
    assert "lossy=True" in str(refusal.value)
    written = flash(mask, 3, 3, lossy=True)
    assert written["cu_seqlens_q"].tolist() == written["cu_seqlens_k"].tolist() == [0, 1, 4]
    assert written["causal"]
    found = read_mask(written, FLASH, Sizes(3, 3, 2)).mask.dense(3, 3)
    for sample, length in enumerate((1, 3)):
        wanted = mask.dense(3, 3)[sample, 0, :length]
        assert torch.equal(found[sample, 0, :length], wanted)
        assert found[sample, 0, length:].all(), "a query without a place is one that sees everything"


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (padding([2, 4], "left"), "hidden keys that are not the last ones"),
        (documents(torch.tensor([[0, 1, 1, 0]])), "documents whose tokens do not lie side by side"),
        (~causal(), "neither a band, nor padding"),
        (
            Mask.from_tensor(torch.stack([torch.eye(4).bool(), torch.ones(4, 4).bool()])[None]),
            "between heads",
        ),
    ],
)
def test_what_a_row_cannot_say_is_lost_in_words(mask, words):
    with pytest.raises(SoftlookupError, match=words):
        flash(mask, 4, 4)


def test_tensors_are_searched_for_rows():
    allowed = (chunked(2) & padding([3, 4])).dense(4, 4)
    written = flash(Mask.from_tensor(packed([0, 1, 4]).dense(4, 4)), 4, 4)
    assert written["cu_seqlens_q"].tolist() == [0, 1, 4]
    lossy = write_mask(Mask.from_tensor(allowed), FLASH, Sizes(4, 4, 2, 1))
    assert (read_mask(lossy.arguments, FLASH, Sizes(4, 4, 2)).mask.dense(4, 4) | ~allowed).all()


def test_torch_says_causal_by_its_window():
    written = convert(packed([0, 2, 5]) & causal(), target=TORCH, q_len=5, k_len=5)
    assert written.pop("cu_seq_q").tolist() == written.pop("cu_seq_k").tolist() == [0, 2, 5]
    assert written == {"max_q": 3, "max_k": 3, "window_size": (-1, 0)}
    again = convert(written | {"cu_seq_q": [0, 2, 5]}, source=TORCH, target=FLASH, q_len=5, k_len=5)
    assert again["causal"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cu_seqlens_q": [1, 3]}, r"are not cumulative lengths(.|\n)*got:      \[1, 3\]"),
        ({"cu_seqlens_q": [0, 3, 2]}, "never falling"),
        ({"cu_seqlens_q": [[0, 3]]}, r"integers \[documents \+ 1\](.|\n)*int64 \[1, 2\]"),
        ({"cu_seqlens_q": torch.tensor([0.0, 3.0])}, r"float32 \[2\]"),
        ({"cu_seqlens_q": [0]}, r"int64 \[1\]"),
        ({"cu_seqlens_q": [0, 3], "cu_seqlens_k": [0, 1, 3]}, "1 documents of keys(.|\n)*2"),
        (
            {"cu_seqlens_q": [0, 1, 4], "max_seqlen_q": 2},
            "at least 3, the most queries(.|\n)*not be computed",
        ),
        ({"cu_seqlens_q": [0, 4], "max_seqlen_k": 3}, "at least 4, the most keys"),
        ({"cu_seqlens_q": [0, 4], "window_size": 3}, r"\(left, right\)(.|\n)*got:      3"),
        ({"cu_seqlens_q": [0, 4], "window_size": (1.0, 0)}, r"got:      \(1\.0, 0\)"),
    ],
)
def test_rows_that_mean_nothing_are_refused(arguments, words):
    with pytest.raises(SoftlookupError, match=words):
        read_mask(arguments, FLASH, Sizes())


@pytest.mark.parametrize(
    ("q_bounds", "sizes"),
    [
        ([0, 3, 6], {"batch_size": 2, "q_len": 2, "k_len": 3}),  # longer than T_q
        ([0, 1, 2, 6], {"batch_size": 2, "q_len": 4, "k_len": 4}),  # 6 tokens do not fill 2 samples of 4
        ([0, 3, 5, 6], {"batch_size": 2, "q_len": 3, "k_len": 2}),  # more keys than T_k
        ([0, 2, 4, 6], {"batch_size": 2, "q_len": 3, "k_len": 3}),  # a document lies in two samples
        ([0, 3, 6], {"q_len": 3, "k_len": 3}),  # nobody said that there are two samples
    ],
)
def test_documents_that_do_not_fit_the_batch_are_refused(q_bounds, sizes):
    with pytest.raises(SoftlookupError, match="documents do not fit the batch") as refusal:
        seen(q_bounds, **sizes)
    assert "without batch_size it is one row" in str(refusal.value)


def test_lengths_of_documents_follow_bounds_and_ids_together():
    ids = torch.tensor([[0, 0, 0, 1], [5, 6, 6, 6]])
    assert document_lengths((0, 2, 4), ids) == [[2, 1, 1], [1, 1, 2]]
    assert document_lengths(None, None) == []
