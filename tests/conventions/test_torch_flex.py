"""FlexAttention: BlockMasks and functions are read as a kernel takes them, and nothing dense is written."""

import functools
import math

import pytest
import torch
from torch.nn.attention.flex_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    flex_attention,
    or_masks,
)
from torch.utils._python_dispatch import TorchDispatchMode

from softlookup import SoftlookupError
from softlookup.conventions import convert, find_convention
from softlookup.conventions.converting import read_mask, write_mask
from softlookup.conventions.measuring import weights_by
from softlookup.conventions.spelling import Sizes
from softlookup.masks import Mask, causal, documents, padding, sliding_window

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

FLEX, SDPA, MHA = "flex_attention", "F.scaled_dot_product_attention", "nn.MultiheadAttention"
B, H = 2, 3
IDS = torch.tensor([[0] * 60 + [1] * 40, [5] * 100])


def causal_mod(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def same_document(b, h, q_idx, kv_idx):
    return IDS[b, q_idx] == IDS[b, kv_idx]


def window_by_head(b, h, q_idx, kv_idx):
    return (q_idx - kv_idx).abs() <= h * 10


FUNCTIONS = [causal_mod, same_document, window_by_head]


def dense_by_hand(mod, q_len, k_len):
    """Asked one position at a time, as the documentation defines it; the axes that do not matter are 1."""
    samples, heads = B if mod is same_document else 1, H if mod is window_by_head else 1
    b, h, i, j = torch.meshgrid(*map(torch.arange, (samples, heads, q_len, k_len)), indexing="ij")
    return mod(b, h, i, j).expand(samples, heads, q_len, k_len)


@pytest.mark.parametrize("mod", FUNCTIONS)
@pytest.mark.parametrize("block_size", [128, 16, (32, 64)], ids=str)
@pytest.mark.parametrize("separate", [True, False], ids=["full blocks", "no full blocks"])
def test_a_block_mask_that_torch_made_is_read_as_its_function(mod, block_size, separate):
    made = create_block_mask(
        mod, B, H, 100, 100, device="cpu", BLOCK_SIZE=block_size, separate_full_blocks=separate
    )
    reading = read_mask(made, FLEX, Sizes())
    assert reading.lost == ()
    assert torch.equal(reading.mask.dense(100, 100), dense_by_hand(mod, 100, 100))


def test_other_lengths_of_keys_than_of_queries_are_read():
    made = create_block_mask(causal_mod, None, None, 100, 300, device="cpu")
    assert torch.equal(
        read_mask(made, FLEX, Sizes()).mask.dense(100, 300), dense_by_hand(causal_mod, 100, 300)
    )


@pytest.mark.parametrize("mod", FUNCTIONS)
def test_a_function_is_read_at_every_position(mod):
    read = read_mask({"mask_mod": mod}, FLEX, Sizes(20, 30, B, H)).mask.dense(20, 30)
    assert torch.equal(read, dense_by_hand(mod, 20, 30))


def test_a_partial_function_is_a_function():
    def near(width, b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs() <= width

    read = read_mask(functools.partial(near, 1), FLEX, Sizes(3, 3)).mask
    assert read.draw(3, 3) == "1 1 .\n1 1 1\n. 1 1"


def test_sizes_are_needed_only_for_what_the_function_looks_at():
    assert read_mask(causal_mod, FLEX, Sizes(4, 4)).mask.dense(4, 4).shape == (1, 1, 4, 4)
    with pytest.raises(SoftlookupError, match="looks at b needs batch_size"):
        read_mask(same_document, FLEX, Sizes(4, 4))
    with pytest.raises(SoftlookupError, match="looks at h needs num_heads"):
        read_mask(window_by_head, FLEX, Sizes(4, 4))


@pytest.mark.parametrize("joined", [and_masks, or_masks])
def test_functions_that_torch_joins_look_at_no_more_than_their_parts(joined):
    read = read_mask(joined(causal_mod, lambda b, h, i, j: i - j < 2), FLEX, Sizes(3, 3)).mask
    assert read.draw(3, 3) == ("1 . .\n1 1 .\n. 1 1" if joined is and_masks else "1 1 1\n1 1 1\n1 1 1")
    with pytest.raises(SoftlookupError, match="batch_size"):
        read_mask(joined(causal_mod, same_document), FLEX, Sizes(3, 3))


def test_a_block_mask_for_all_samples_of_a_function_that_looks_at_them_needs_their_number():
    made = create_block_mask(same_document, None, None, 100, 100, device="cpu")
    with pytest.raises(SoftlookupError, match="batch_size"):
        read_mask(made, FLEX, Sizes())


def test_a_function_becomes_a_small_mask_of_another_module():
    made = create_block_mask(causal_mod, B, H, 4, 4, device="cpu")
    written = convert(made, source=FLEX, target=MHA, batch_size=B, num_heads=H)
    assert written["attn_mask"].tolist() == torch.ones(4, 4).triu(1).bool().tolist()


# Blocks that say something else than the function


def blocks_on_the_diagonal():
    """Two blocks of 16 on the diagonal, made without a function, with undefined numbers behind them."""
    counts, indices = torch.ones(1, 1, 2).int(), torch.tensor([[[[0, 1], [1, 0]]]]).int()
    return BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=16)


def test_blocks_that_hide_more_than_the_function_are_read_as_a_kernel_takes_them():
    reading = read_mask(blocks_on_the_diagonal(), FLEX, Sizes())
    wanted = torch.block_diag(torch.ones(16, 16), torch.ones(16, 16)).bool()
    assert torch.equal(reading.mask.dense(32, 32)[0, 0], wanted)
    assert reading.lost == (
        "the entries where blocks and mask_mod differ: uncompiled, only mask_mod is asked",
    )


def test_uncompiled_the_blocks_are_not_looked_at():
    q = torch.randn(1, 1, 32, 16)
    with_blocks = flex_attention(q, q, q, block_mask=blocks_on_the_diagonal())
    torch.testing.assert_close(with_blocks, flex_attention(q, q, q))


def test_full_blocks_are_shown_without_asking():
    counts, indices = torch.ones(1, 1, 1).int(), torch.zeros(1, 1, 1, 1).int()
    made = BlockMask.from_kv_blocks(
        counts * 0, indices, counts, indices, BLOCK_SIZE=16, mask_mod=lambda b, h, i, j: i < 0
    )
    reading = read_mask(made, FLEX, Sizes())
    assert reading.mask.dense(16, 16).all()
    assert reading.lost


# score_mod


def test_a_score_of_minus_infinity_hides():
    def score_mod(score, b, h, q_idx, kv_idx):
        return torch.where(q_idx >= kv_idx, score, -math.inf)

    reading = read_mask({"score_mod": score_mod}, FLEX, Sizes(5, 5))
    assert reading.lost == ()
    assert torch.equal(reading.mask.dense(5, 5), dense_by_hand(causal_mod, 5, 5))


def test_a_score_that_is_added_to_is_a_bias():
    def score_mod(score, b, h, q_idx, kv_idx):
        return score - 0.5 * (q_idx - kv_idx)

    arguments = {
        "score_mod": score_mod,
        "block_mask": create_block_mask(causal_mod, 1, 1, 3, 3, device="cpu"),
    }
    reading = read_mask(arguments, FLEX, Sizes(3, 3))
    assert reading.lost == ("the bias on visible keys, -1 to 1: it changes weights and hides nothing",)
    assert torch.equal(reading.mask.dense(3, 3), dense_by_hand(causal_mod, 3, 3))


def test_a_score_that_is_bent_is_lost():
    def soft_cap(score, b, h, q_idx, kv_idx):
        return 2 * torch.tanh(score / 2)

    (lost,) = read_mask({"score_mod": soft_cap}, FLEX, Sizes(3, 3)).lost
    assert lost == "what score_mod does to scores beyond adding to them"


def test_a_score_mod_that_looks_at_heads_needs_their_number():
    def score_mod(score, b, h, q_idx, kv_idx):
        return score - h

    with pytest.raises(SoftlookupError, match="num_heads"):
        read_mask({"score_mod": score_mod}, FLEX, Sizes(3, 3))


# Refusals


def test_what_is_no_block_mask_is_refused_as_the_call_refuses_it():
    allowed = torch.ones(4, 4, dtype=torch.bool)
    with pytest.raises(SoftlookupError, match=r"no BlockMask.*\n.*\n.*Tensor\n.*reads a bool tensor"):
        read_mask(allowed, FLEX, Sizes(4, 4))
    with pytest.raises(AttributeError):
        weights_by(find_convention(FLEX)[0], {"block_mask": allowed}, Sizes(4, 4, 1, 1))


def test_a_block_mask_for_other_lengths_is_refused_as_the_call_refuses_it():
    made = create_block_mask(causal_mod, None, None, 4, 4, device="cpu")
    with pytest.raises(SoftlookupError, match=r"q_len=3, k_len=4\n.*\(4, 4\)"):
        read_mask(made, FLEX, Sizes(3, 4))
    with pytest.raises(ValueError, match="larger length"):
        weights_by(find_convention(FLEX)[0], {"block_mask": made}, Sizes(3, 4, 1, 1))


def test_a_function_beside_a_block_mask_is_refused():
    made = create_block_mask(causal_mod, None, None, 4, 4, device="cpu")
    with pytest.raises(SoftlookupError, match="part of a BlockMask"):
        read_mask({"block_mask": made, "mask_mod": causal_mod}, FLEX, Sizes(4, 4))


@pytest.mark.parametrize(
    ("mod", "words"),
    [
        (lambda b, h, i: i > 0, "TypeError"),
        (lambda b, h, i, j: IDS[b, i + 1000] == 0, "IndexError"),
        (lambda b, h, i, j: i - j, "bool, True = may look"),
    ],
    ids=["too few parameters", "out of range", "numbers"],
)
def test_a_function_that_fails_is_refused_in_words(mod, words):
    with pytest.raises(SoftlookupError, match=words):
        read_mask({"mask_mod": mod}, FLEX, Sizes(4, 4, B, H))


def test_a_part_of_a_block_mask_has_no_function_any_more():
    made = create_block_mask(causal_mod, 1, 1, 4, 4, device="cpu")[:, :, :1]
    with pytest.raises(SoftlookupError, match="sliced BlockMask"):
        read_mask(made, FLEX, Sizes())


# What is written


class LargestTensor(TorchDispatchMode):
    """Remembers how many entries the largest tensor has that any operation returns."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for it in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(it, torch.Tensor) and it.untyped_storage().nbytes() >= it.numel():
                self.entries = max(self.entries, it.numel())
        return result


@pytest.mark.parametrize("form", ["block_mask", "mask_mod"])
@pytest.mark.parametrize("mask", [causal(), sliding_window(100) & padding([3000, 4096])], ids=repr)
def test_a_rule_is_never_made_dense(form, mask):
    with LargestTensor() as largest:
        written = write_mask(mask, f"{FLEX}[{form}]", Sizes(4096, 4096, B, H))
    assert not written.lost
    assert largest.entries <= B * 128 * 4096  # one row of blocks, where the dense mask has 4096


def test_the_written_block_mask_skips_what_is_hidden():
    written = write_mask(sliding_window(128), FLEX, Sizes(1024, 1024, B, H)).arguments["block_mask"]
    assert written.sparsity() == 100 * (1 - 15 / 64)  # a block on the diagonal and one before it, of 8 x 8


@pytest.mark.parametrize("form", ["block_mask", "mask_mod"])
def test_rules_and_tensors_over_several_blocks_come_back(form):
    torch.manual_seed(0)
    for mask in (
        causal() & padding([150, 300]),
        documents(torch.randint(0, 3, (B, 300)).sort(-1).values),
        Mask.from_tensor(torch.rand(B, H, 300, 300) > 0.5),
    ):
        sizes = Sizes(300, 300, B, H)
        arguments = write_mask(mask, f"{FLEX}[{form}]", sizes).arguments
        reading = read_mask(arguments, FLEX, sizes)
        assert reading.lost == ()
        assert torch.equal(reading.mask.dense(300, 300), mask.dense(300, 300))


def test_a_query_without_keys_gets_zeros():
    q = torch.randn(1, 1, 4, 16)
    made = create_block_mask(lambda b, h, i, j: (i != 2) & (i >= j), None, None, 4, 4, device="cpu")
    assert not flex_attention(q, q, q, block_mask=made)[0, 0, 2].any()
