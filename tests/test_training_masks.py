"""The three masks of a training step, held against a loop that computes the loss token by token."""

import doctest
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy

from softlookup import SoftlookupError, make_training_masks, training_masks

TOKENS = torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]])


def loss_by_hand(logits, token_ids, lengths, prompt_lengths, left=False):
    """Mean of -log p(next real token), over the tokens after the first and after the prompt."""
    losses = []
    for b, row in enumerate(token_ids.tolist()):
        start = len(row) - lengths[b] if left else 0
        for n in range(max(1, prompt_lengths[b]), lengths[b]):
            scores = logits[b][start + n - 1]
            losses.append(math.log(sum(map(math.exp, scores))) - scores[row[start + n]])
    return sum(losses) / len(losses) if losses else None


@st.composite
def batches(draw):
    T = draw(st.integers(2, 7))
    lengths = draw(st.lists(st.integers(1, T), min_size=1, max_size=3))
    lengths[0] = max(2, lengths[0])
    left = draw(st.booleans())
    rows = []
    for length in lengths:
        real, pad = draw(st.lists(st.integers(1, 9), min_size=length, max_size=length)), [0] * (T - length)
        rows.append(pad + real if left else real + pad)
    prompts = [draw(st.integers(0, length)) for length in lengths]
    prompts[0] = min(prompts[0], lengths[0] - 1)
    return torch.tensor(rows), lengths, prompts, left


@given(batches(), st.integers(0, 99))
@settings(deadline=None, max_examples=60)
def test_cross_entropy_with_ignore_index_is_the_loop_over_tokens(batch, seed):
    token_ids, lengths, prompts, left = batch
    logits = torch.randn(
        *token_ids.shape, 10, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )
    masks = make_training_masks(token_ids, prompt_lengths=prompts)
    loss = cross_entropy(logits.flatten(0, 1), masks.labels.flatten(), ignore_index=masks.ignore_index)
    assert loss.item() == pytest.approx(loss_by_hand(logits.tolist(), token_ids, lengths, prompts, left))


@given(batches())
@settings(deadline=None, max_examples=40)
def test_labels_for_a_model_that_shifts_are_the_same_labels_one_place_later(batch):
    token_ids, _, prompts, _ = batch
    here = make_training_masks(token_ids, prompt_lengths=prompts)
    inside = make_training_masks(token_ids, prompt_lengths=prompts, shift=False)
    assert here.shifted
    assert not inside.shifted
    assert torch.equal(
        here.labels[:, :-1], inside.labels[:, 1:]
    )  # what such a model compares with logits[:, :-1]
    assert torch.equal(here.loss_mask[:, :-1], inside.loss_mask[:, 1:])
    assert not inside.loss_mask[:, 0].any()
    assert not here.loss_mask[:, -1].any()


def test_the_three_masks_of_the_lesson_are_three_things():
    masks = make_training_masks(TOKENS)
    assert masks.data_mask.tolist() == [[True] * 3 + [False] * 2, [True] * 5]
    assert masks.loss_mask.tolist() == [[True, True, False, False, False], [True] * 4 + [False]]
    assert masks.labels.tolist() == [[91, 33, -100, -100, -100], [17, 29, 81, 5, -100]]
    assert masks.attention_allowed_mask.shape == (2, 1, 5, 5)
    assert masks.attention_allowed_mask[0, 0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 0, 0],
    ]


def test_without_shift_the_label_is_the_token_itself_and_the_first_never_counts():
    masks = make_training_masks(TOKENS, shift=False)
    assert masks.labels.tolist() == [[-100, 91, 33, -100, -100], [-100, 17, 29, 81, 5]]


def test_a_prompt_is_looked_at_and_not_learnt():
    masks = make_training_masks(TOKENS, prompt_lengths=torch.tensor([2, 3]))
    assert masks.labels.tolist() == [[-100, 33, -100, -100, -100], [-100, -100, 81, 5, -100]]
    assert masks.data_mask[0, :3].all()
    assert masks.attention_allowed_mask[0, 0, 2].tolist() == [True, True, True, False, False]


def test_with_padding_on_the_left_no_padded_place_predicts_the_first_token():
    masks = make_training_masks(torch.tensor([[0, 0, 7, 8, 9]]))
    assert masks.labels.tolist() == [[-100, -100, 8, 9, -100]]


def test_lengths_keep_an_end_token_that_doubles_as_padding():
    token_ids = torch.tensor([[5, 6, 2, 2, 2]])
    assert make_training_masks(token_ids, pad_id=2).labels.tolist() == [[6, -100, -100, -100, -100]]
    masks = make_training_masks(token_ids, pad_id=2, lengths=[3])
    assert masks.labels.tolist() == [[6, 2, -100, -100, -100]]
    assert masks.attention_allowed_mask[0, 0, 4].tolist() == [True, True, True, False, False]


def test_labels_fit_cross_entropy_whatever_the_integer_type():
    masks = make_training_masks(TOKENS.to(torch.int32), ignore_index=-1)
    assert masks.labels.dtype == torch.int64
    assert masks.ignore_index == -1
    assert masks.labels[0].tolist() == [91, 33, -1, -1, -1]


def test_the_callers_tokens_stay_as_they_are():
    token_ids = TOKENS.clone()
    make_training_masks(token_ids).labels.fill_(3)
    make_training_masks(token_ids, shift=False).labels.fill_(3)
    assert torch.equal(token_ids, TOKENS)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"token_ids": [[1, 2]]}, ["`token_ids`", "integer tensor [B, T]", "list"]),
        ({"token_ids": torch.rand(2, 3)}, ["`token_ids`", "float32 [2, 3]"]),
        ({"token_ids": torch.tensor([1, 2])}, ["`token_ids`", "token_ids[None] for a single sample"]),
        ({"token_ids": torch.tensor([[1, 2], [0, 0]])}, ["all padding", "none in sample 1", "pad_id = 0"]),
        ({"token_ids": TOKENS, "lengths": [3, 0]}, ["all padding", "none in sample 1"]),
        (
            {"token_ids": TOKENS, "lengths": [3]},
            ["`lengths` does not fit", "2 whole numbers from 0 to 5", "[3]"],
        ),
        ({"token_ids": TOKENS, "lengths": [3, 6]}, ["`lengths` does not fit", "[3, 6]", "B=2, T=5"]),
        ({"token_ids": TOKENS, "prompt_lengths": 6}, ["`prompt_lengths` does not fit", "[6, 6]"]),
        ({"token_ids": TOKENS, "prompt_lengths": -1}, ["`prompt_lengths`", "at least 0", "-1"]),
        ({"token_ids": TOKENS, "prompt_lengths": 5}, ["no target is left", "outside the prompt"]),
        ({"token_ids": TOKENS, "ignore_index": 29}, ["ignore_index is the id of a token that counts", "29"]),
    ],
)
def test_a_batch_that_cannot_be_trained_on_is_refused_in_words(arguments, words):
    with pytest.raises(SoftlookupError) as refusal:
        make_training_masks(**arguments)
    assert [word for word in words if word not in str(refusal.value)] == []


def test_the_examples_in_the_docstrings_run():
    result = doctest.testmod(training_masks)
    assert result.attempted > 0
    assert result.failed == 0
