"""Which blocks of a mask show something: the answer is that of every entry looked at, and no copy is made."""

import doctest
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from softlookup import SoftlookupError
from softlookup.fused import occupancy
from softlookup.fused.occupancy import Run, block_occupancy, runs_of_blocks
from softlookup.masks import Mask, causal, dilated, documents, padding


class LargestResult(TorchDispatchMode):
    """Notes the bytes of the largest tensor that is allocated: what looks at memory of before is no copy."""

    def __init__(self, *known):
        super().__init__()
        self.known, self.bytes = {tensor.untyped_storage().data_ptr() for tensor in known}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.untyped_storage().data_ptr() not in self.known:
            self.bytes = max(self.bytes, result.untyped_storage().nbytes())
        return result


def by_hand(allowed_mask, block, reduce):
    """[B, H, T_q, T_k] -> [B, H, q blocks, k blocks], one block after another."""
    q_len, k_len = allowed_mask.shape[-2:]
    rows = [
        torch.stack(
            [
                reduce(allowed_mask[..., i : i + block, j : j + block].flatten(-2), -1)
                for j in range(0, k_len, block)
            ],
            dim=-1,
        )
        for i in range(0, q_len, block)
    ]
    return torch.stack(rows, dim=-2)


@st.composite
def tensors(draw):
    """Bool masks with whole blocks of one value, and single entries that break them; some axes of size 1."""
    sizes = [draw(st.integers(1, most)) for most in (2, 2, 9, 9)]
    block = draw(st.integers(1, 4))
    seed = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    coarse = torch.rand(*sizes, generator=seed) < draw(st.sampled_from([0.2, 0.5, 0.8]))
    mask = coarse.repeat_interleave(block, 2).repeat_interleave(block, 3)[:, :, : sizes[2], : sizes[3]]
    return mask ^ (torch.rand(mask.shape, generator=seed) < draw(st.sampled_from([0.0, 0.05]))), block


@given(tensors(), st.sampled_from(["bool", "float", "Mask", "transposed"]))
@settings(max_examples=150, deadline=None)
def test_blocks_of_any_mask_are_those_counted_by_hand(tensor_and_block, kind):
    allowed, block = tensor_and_block
    q_len, k_len = allowed.shape[-2:]
    given_mask = {
        "bool": allowed,
        "float": torch.where(allowed, -3.0, -math.inf),
        "Mask": Mask.from_tensor(allowed) & causal(),
        "transposed": allowed.mT.contiguous().mT,
    }[kind]
    if kind == "Mask":
        allowed = allowed & causal().dense(q_len, k_len)
    seen = block_occupancy(given_mask, q_len, k_len, block)
    assert torch.equal(seen.some, by_hand(allowed, block, torch.any))
    assert torch.equal(seen.all, by_hand(allowed, block, torch.all))


@given(tensors())
@settings(max_examples=100, deadline=None)
def test_runs_cover_every_visible_key_and_are_full_where_nothing_is_hidden(tensor_and_block):
    allowed, block = tensor_and_block
    q_len, k_len = allowed.shape[-2:]
    seen = block_occupancy(allowed, q_len, k_len, block)
    for n, start in enumerate(range(0, q_len, block)):
        rows = allowed[-1, -1, start : start + block]
        runs = runs_of_blocks(seen, allowed.shape[0] - 1, allowed.shape[1] - 1, n)
        inside = torch.zeros(k_len, dtype=torch.bool)
        for run in runs:
            inside[run.start : run.stop] = True
            assert run.full == bool(rows[:, run.start : run.stop].all())
        assert not rows[:, ~inside].any()
        assert all(a.stop < b.start for a, b in pairwise(runs)), "neighbours are joined"


@pytest.mark.parametrize("shape", [(1, 1, 1, 7), (2, 1, 1, 7), (1, 3, 5, 1), (1, 1, 1, 1)])
def test_an_axis_of_size_1_stands_for_all_blocks(shape):
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.5
    seen = block_occupancy(mask, 5, 7, block=2)
    dense = mask.expand(*shape[:2], 5, 7)
    assert torch.equal(seen.some, by_hand(dense, 2, torch.any))
    assert torch.equal(seen.all, by_hand(dense, 2, torch.all))


@pytest.mark.parametrize(
    "mask",
    [
        dilated(2, 3),
        documents(torch.tensor([[4, 4, 9, 4, 4, 1, 1], [1, 2, 2, 2, 2, 2, 2]])),
        padding([3, 7]),
        causal("bottom-right"),
    ],
    ids=repr,
)
def test_a_mask_is_asked_as_it_is(mask):
    seen = block_occupancy(mask, 5, 7, block=2)
    assert torch.equal(seen.some, by_hand(mask.dense(5, 7), 2, torch.any))
    assert torch.equal(seen.all, by_hand(mask.dense(5, 7), 2, torch.all))


def test_a_block_larger_than_a_byte_counts_is_counted_right():
    mask = torch.ones(1, 1, 512, 300, dtype=torch.bool)
    mask[..., 256:, :] = False
    seen = block_occupancy(mask, 512, 300, block=256)
    assert seen.some.tolist() == seen.all.tolist() == [[[[True, True], [False, False]]]]


def test_no_copy_as_large_as_the_mask_is_made():
    allowed = torch.rand(1, 2, 512, 512) < 0.5
    for mask, size in (
        (allowed, allowed.numel()),
        (torch.where(allowed, 0.0, -math.inf), 4 * allowed.numel()),
    ):
        with LargestResult(mask) as largest:
            block_occupancy(mask, 512, 512)
        assert 0 < largest.bytes <= size / 64


def test_a_mask_without_a_tensor_is_asked_row_by_row():
    with LargestResult() as largest:
        block_occupancy(dilated(4, 4), 1024, 1024)
    assert 0 < largest.bytes <= 128 * 1024 * 8  # one row of blocks of positions, int64


def test_a_repeated_mask_is_looked_at_once():
    mask = (torch.rand(1, 1, 6, 6) < 0.5).expand(4, 8, 6, 6)
    assert block_occupancy(mask, 6, 6, block=2).some.shape == (1, 1, 3, 3)


def test_a_bias_that_is_not_a_number_is_visible_and_not_full():
    bias = torch.tensor([[math.nan], [-math.inf]])[None, None]
    seen = block_occupancy(bias, 2, 1)
    assert (seen.some.item(), seen.all.item()) == (True, False)


@pytest.mark.parametrize(("q_len", "k_len"), [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("mask", [causal(), "tensor"], ids=str)
def test_nothing_to_look_at_has_no_blocks(mask, q_len, k_len):
    if mask == "tensor":
        mask = torch.ones(1, 1, q_len, k_len, dtype=torch.bool)
    seen = block_occupancy(mask, q_len, k_len, block=2)
    assert seen.some.shape == (1, 1, -(-q_len // 2), -(-k_len // 2))
    assert seen.share == 0


def test_the_share_counts_blocks_that_show_anything():
    assert block_occupancy(causal(), 8, 8, block=2).share == 10 / 16
    assert runs_of_blocks(block_occupancy(causal(), 8, 8, block=2), 5, 5, 1) == [Run(0, 4, False)]


@pytest.mark.parametrize(
    ("mask", "block", "words"),
    [
        (torch.ones(3, 3, dtype=torch.bool), 2, "four axes"),
        (torch.ones(1, 1, 3, 3, dtype=torch.int64), 2, "int64"),
        (torch.ones(1, 1, 3, 3, dtype=torch.bool), 0, "at least 1"),
    ],
)
def test_what_is_no_mask_is_refused_in_words(mask, block, words):
    with pytest.raises(SoftlookupError, match=words):
        block_occupancy(mask, 3, 3, block)


def test_the_examples_run():
    assert doctest.testmod(occupancy, extraglobs={"torch": torch}).failed == 0
