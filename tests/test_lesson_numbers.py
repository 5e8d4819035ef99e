"""Every number and every worked example that the lesson names, computed by the library."""

import math

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention as torch_attention

from softlookup import CrossAttention, MultiHeadAttention, scaled_dot_product_attention
from softlookup.cost import Workload, attention_cost

torch.set_num_threads(1)


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def causal_and_padding(token_ids):
    from softlookup.masks import make_causal_allowed_mask, make_padding_allowed_mask

    return make_causal_allowed_mask(token_ids.shape[1]), make_padding_allowed_mask(token_ids)


# The lookup


def test_the_worked_example_to_four_decimals():
    q = torch.tensor([[[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]])
    k = torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]])
    v = torch.tensor([[[10.0, 0], [0, 10], [5, 5]]])
    output, weights = scaled_dot_product_attention(q, k, v)
    expected_weights = torch.tensor(
        [[[0.3837, 0.2327, 0.3837], [0.2327, 0.3837, 0.3837], [0.2741, 0.2741, 0.4519]]]
    )
    expected_output = torch.tensor([[[5.7548, 4.2452], [4.2452, 5.7548], [5.0, 5.0]]])
    torch.testing.assert_close(weights, expected_weights, atol=5e-5, rtol=0)
    torch.testing.assert_close(output, expected_output, atol=5e-5, rtol=0)


def test_the_scale_brings_a_variance_of_64_back_to_1():
    from softlookup.attention import scale, score
    from softlookup.terms import Case

    case = Case(draw(4096, 1, 64), draw(4096, 1, 64, seed=1), draw(4096, 1, 64, seed=2))
    dots = score(case.q, case.k, case)
    scaled = scale(dots, case)
    # The variance of 4096 samples of a variance of 64 lies within 64 +- 5 in all but one of 2000 drawings.
    assert dots.var().item() == pytest.approx(64, abs=5)
    assert dots.std().item() == pytest.approx(8, abs=0.35)
    assert scaled.var().item() == pytest.approx(1, abs=0.08)
    torch.testing.assert_close(scaled, dots / 8)


def test_without_the_scale_the_softmax_saturates():
    q, k, v = draw(64, 1, 64), draw(64, 10, 64, seed=1), draw(64, 10, 64, seed=2)
    _, scaled = scaled_dot_product_attention(q, k, v)
    _, unscaled = scaled_dot_product_attention(q, k, v, scale=1.0)
    assert scaled.amax(-1).mean() < 0.5
    assert unscaled.amax(-1).mean() > 0.8


def test_only_projections_have_parameters():
    names = {name for name, _ in MultiHeadAttention(8, 2).named_parameters()}
    assert names == {"q_proj.weight", "k_proj.weight", "v_proj.weight", "out_proj.weight"}


# Masks

TOKEN_IDS = torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]])


def test_the_shapes_of_the_masks():
    causal, padding = causal_and_padding(TOKEN_IDS)
    assert causal.shape == (1, 1, 5, 5)
    assert padding.shape == (2, 1, 1, 5)
    assert (causal & padding).shape == (2, 1, 5, 5)
    assert torch.equal(causal[0, 0], torch.ones(5, 5).tril().bool())
    assert torch.equal(padding[:, 0, 0], TOKEN_IDS != 0)


def test_the_shapes_of_context_and_weights_under_both_masks():
    causal, padding = causal_and_padding(TOKEN_IDS)
    q, k, v = (draw(2, 2, 5, 8, seed=seed) for seed in range(3))
    context, weights = scaled_dot_product_attention(q, k, v, causal & padding)
    assert context.shape == (2, 2, 5, 8)
    assert weights.shape == (2, 2, 5, 5)
    assert (weights.triu(1) == 0).all()
    assert (weights[0, :, :, 3:] == 0).all()  # columns of padded keys; their rows stay
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))


def test_a_sample_of_padding_makes_every_row_of_it_invalid_and_the_error_says_so():
    _, padding = causal_and_padding(torch.tensor([[12, 91, 33], [0, 0, 0]]))
    q, k, v = (draw(2, 2, 3, 8, seed=seed) for seed in range(3))
    with pytest.raises(
        ValueError, match=r"6 of 12 rows are empty.*every query of batch 1 is empty: is it all padding"
    ):
        scaled_dot_product_attention(q, k, v, padding)


def test_torch_agrees_on_true_in_the_function_and_disagrees_in_the_module():
    allowed = torch.ones(5, 5).tril().bool()
    q, k, v = (draw(2, 2, 5, 8, seed=seed) for seed in range(3))
    output, _ = scaled_dot_product_attention(q, k, v, allowed)
    torch.testing.assert_close(output, torch_attention(q, k, v, attn_mask=allowed))
    module, x = nn.MultiheadAttention(8, 2, batch_first=True), draw(2, 5, 8)
    _, weights = module(x, x, x, attn_mask=~allowed, average_attn_weights=False)
    torch.testing.assert_close(MultiHeadAttention.from_torch(module)(x, allowed)[1], weights)


# Self, cross, heads


def test_self_scores_are_square_and_cross_scores_are_target_by_source():
    x, memory = draw(2, 4, 8), draw(2, 7, 8, seed=1)
    assert scaled_dot_product_attention(x, x, x)[1].shape == (2, 4, 4)
    assert scaled_dot_product_attention(x, memory, memory)[1].shape == (2, 4, 7)


def test_cross_attention_of_4_to_7_with_padding_of_length_7():
    real = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
    layer = CrossAttention(32, 4)
    output, weights = layer(
        query_states=draw(2, 4, 32), memory_states=draw(2, 7, 32, seed=1), memory_mask=real
    )
    assert output.shape == (2, 4, 32)
    assert weights.shape == (2, 4, 4, 7)
    assert (weights[1, ..., 5:] == 0).all()


@pytest.mark.parametrize(("num_heads", "d_head"), [(8, 64), (16, 32)])
def test_a_d_model_of_512_is_split_and_not_copied(num_heads, d_head):
    layer = MultiHeadAttention(512, num_heads, device="meta")
    assert layer.d_head == d_head
    assert sum(parameter.numel() for parameter in layer.parameters()) == 4 * 512 * 512


def test_the_demonstration_of_32_in_4_heads():
    causal, _ = causal_and_padding(TOKEN_IDS)
    output, weights = MultiHeadAttention(32, 4)(draw(2, 5, 32), causal)
    assert output.shape == (2, 5, 32)
    assert weights.shape == (2, 4, 5, 5)
    assert (weights.triu(1) == 0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 5))


def test_d_model_must_be_a_multiple_of_the_heads():
    with pytest.raises(ValueError, match="d_model a multiple of num_heads"):
        MultiHeadAttention(512, 7)


# Cost


def test_logits_grow_with_the_square_of_the_tokens_and_not_with_the_width():
    wide = attention_cost(Workload(2, 4, 100, 64))
    assert wide.logits == 2 * 4 * 100 * 100
    assert attention_cost(Workload(2, 4, 200, 64)).logits == 4 * wide.logits
    narrow = attention_cost(Workload(2, 4, 100, 32))
    assert narrow.logits == wide.logits
    assert narrow.score_flops == wide.score_flops / 2


# Debugging like an engineer: B=2, H=3, T=5, d_head=4


@pytest.fixture
def qkv():
    return [draw(2, 3, 5, 4, seed=seed) for seed in range(3)]


def test_every_intermediate_has_the_shape_that_its_comment_says(qkv):
    from softlookup.attention import STEPS

    seen = {}

    def noted(name):
        step = getattr(STEPS, name)

        def run(*arguments):
            result = step(*arguments)
            seen[name] = tuple(result.shape)
            return result

        return run

    from softlookup.terms import Case

    names = ("repeat_kv_heads", "score", "scale", "visible", "hide", "normalize", "settle", "drop", "mix")
    STEPS.but(**{name: noted(name) for name in names})(Case(*qkv, causal="top-left"))
    square = (2, 3, 5, 5)
    assert seen.pop("repeat_kv_heads") == seen.pop("mix") == (2, 3, 5, 4)
    assert seen.pop("visible") == (5, 5)
    assert set(seen.values()) == {square}
    assert len(seen) == 6


def test_rows_sum_to_one_and_columns_are_free(qkv):
    _, weights = scaled_dot_product_attention(*qkv)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5))
    assert (weights.sum(-2) - 1).abs().max() > 0.1


def test_hidden_keys_get_exactly_zero_and_pass_no_value_gradient(qkv):
    q, k, v = qkv
    v.requires_grad_()
    real = torch.tensor([[True] * 3 + [False] * 2, [True] * 5])[:, None, None]
    output, weights = scaled_dot_product_attention(q, k, v, real)
    output.sum().backward()
    assert (weights[0, :, :, 3:] == 0).all()
    assert (v.grad[0, :, 3:] == 0).all()
    assert (v.grad[1] != 0).any(-1).all()


def test_a_finite_fill_is_not_hiding_in_low_precision(qkv):
    q, k, v = (tensor.half() for tensor in qkv)
    allowed = torch.ones(5, 5).tril().bool()
    filled = torch.zeros(5, 5).masked_fill(~allowed, -10.0)
    assert (scaled_dot_product_attention(q, k, v, filled)[1].triu(1) > 0).any()
    assert (scaled_dot_product_attention(q, k, v, allowed)[1].triu(1) == 0).all()


def test_dropout_breaks_row_sums_but_neither_shapes_nor_zeros(qkv):
    torch.manual_seed(0)
    output, weights = scaled_dot_product_attention(*qkv, is_causal=True, dropout_p=0.5)
    assert output.shape == (2, 3, 5, 4)
    assert (weights.triu(1) == 0).all()
    assert (weights.sum(-1) - 1).abs().max() > 0.1


def test_a_blocked_mask_is_the_opposite_and_the_diagonal_stays_visible(qkv):
    allowed = torch.ones(5, 5).tril().bool()
    blocked = ~allowed
    assert not blocked.diagonal().any()
    _, weights = scaled_dot_product_attention(*qkv, ~blocked)
    assert (weights.diagonal(dim1=-2, dim2=-1) > 0).all()


def test_a_previous_token_head_reads_the_token_before():
    sharp = 50 * torch.eye(5)
    values = torch.arange(5.0)[:, None] * 10
    previous = scaled_dot_product_attention(sharp.roll(-1, dims=1), torch.eye(5), values)[0]
    assert previous[1:].flatten().tolist() == pytest.approx([0, 10, 20, 30], abs=1e-3)


def test_transposing_every_axis_is_wrong_and_the_last_two_right(qkv):
    q, k, v = qkv
    assert k.permute(3, 2, 1, 0).shape == (4, 5, 3, 2)  # what .T does to a batch
    _, weights = scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(weights, (q @ k.transpose(-2, -1) / math.sqrt(4)).softmax(-1))


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)], ids=str
)
def test_fused_kernels_agree_within_the_tolerance_of_the_dtype(qkv, dtype, tolerance):
    q, k, v = (tensor.to(dtype) for tensor in qkv)
    output, weights = scaled_dot_product_attention(q, k, v, is_causal=True)
    assert torch.allclose(
        output, torch_attention(q, k, v, is_causal=True, dropout_p=0.0), atol=tolerance, rtol=tolerance
    )
    assert (weights.triu(1) == 0).all()


def test_float_masks_are_additive_biases_and_ones_do_not_hide(qkv):
    allowed = torch.ones(5, 5).tril()
    _, weights = scaled_dot_product_attention(*qkv, allowed)
    assert (weights > 0).all()
