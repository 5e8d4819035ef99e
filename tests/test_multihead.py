import doctest
import math

import pytest
import torch
from torch import nn

import softlookup.multihead
from softlookup import CrossAttention, MultiHeadAttention, SoftlookupError, scaled_dot_product_attention

torch.set_num_threads(1)

B, T, d_model, H, T_source, d_memory = 2, 5, 12, 3, 7, 10


def tokens(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def layer_of(kind, **options):
    torch.manual_seed(1)
    options = {"dtype": torch.float64, **options}
    if kind is CrossAttention:
        return CrossAttention(d_model, H, d_memory, **options)
    return MultiHeadAttention(d_model, H, **options)


def causal_mask(size=T):
    return torch.ones(size, size, dtype=torch.bool).tril()


# One head at a time, with slices instead of views


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("num_kv_heads", [None, 1])
def test_each_head_looks_up_with_its_own_slice_of_the_projections(bias, num_kv_heads):
    layer = layer_of(MultiHeadAttention, bias=bias, num_kv_heads=num_kv_heads)
    x, d_head = tokens(B, T, d_model), d_model // H
    output, weights = layer(x, causal_mask())
    contexts = []
    for head in range(H):
        own = slice(head * d_head, (head + 1) * d_head)
        shared = own if num_kv_heads is None else slice(0, d_head)
        q, k, v = layer.q_proj(x)[..., own], layer.k_proj(x)[..., shared], layer.v_proj(x)[..., shared]
        context, shares = scaled_dot_product_attention(q, k, v, causal_mask())
        torch.testing.assert_close(weights[:, head], shares)
        contexts.append(context)
    torch.testing.assert_close(output, layer.out_proj(torch.cat(contexts, dim=-1)))


def test_a_token_moved_to_another_place_takes_its_output_along():
    layer, x = layer_of(MultiHeadAttention), tokens(B, T, d_model)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(layer(x[:, order])[0], layer(x)[0][:, order])


def test_split_and_merge_undo_each_other():
    layer, x = layer_of(MultiHeadAttention), tokens(B, T, d_model)
    heads = layer.split_heads(x)
    assert heads.shape == (B, H, T, d_model // H)
    assert torch.equal(heads[1, 2, 3], x[1, 3, 8:12])
    assert torch.equal(layer.merge_heads(heads), x)


@pytest.mark.parametrize("shape", [(B, H, T), (B, T, H, 4), (B, H, T, 5), (B, 4, T, 3)], ids=str)
def test_heads_of_another_shape_are_not_merged(shape):
    with pytest.raises(SoftlookupError, match=r"\[B, 3, T, 4\]"):
        layer_of(MultiHeadAttention).merge_heads(torch.zeros(shape))


# nn.MultiheadAttention


def torch_layer(**options):
    torch.manual_seed(2)
    module = nn.MultiheadAttention(d_model, H, batch_first=True, dtype=torch.float64, **options)
    for (
        parameter
    ) in module.parameters():  # biases start at zero there, which would hide that they are forgotten
        nn.init.normal_(parameter, std=0.5)
    return module.eval()


@pytest.mark.parametrize("bias", [False, True])
def test_a_layer_made_from_torch_gives_the_same_output_and_weights(bias):
    module = torch_layer(bias=bias)
    x, allowed = tokens(B, T, d_model), causal_mask()
    expected = module(x, x, x, attn_mask=~allowed, average_attn_weights=False)
    got = MultiHeadAttention.from_torch(module)(x, allowed)
    torch.testing.assert_close(got[0], expected[0])
    torch.testing.assert_close(got[1], expected[1])


def test_padding_that_torch_blocks_is_allowed_the_other_way_round():
    module, x = torch_layer(), tokens(B, T, d_model)
    real = torch.tensor([[True, True, True, False, False], [True] * 5])
    expected, _ = module(x, x, x, key_padding_mask=~real)
    output, _ = MultiHeadAttention.from_torch(module)(x, real[:, None, None, :])
    torch.testing.assert_close(output, expected)


def test_a_layer_that_is_not_batch_first_carries_over():
    module = nn.MultiheadAttention(d_model, H, dtype=torch.float64).eval()
    x = tokens(B, T, d_model)
    expected, _ = module(*[x.transpose(0, 1)] * 3)
    torch.testing.assert_close(MultiHeadAttention.from_torch(module)(x)[0], expected.transpose(0, 1))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("width", [d_model, d_memory], ids=["packed", "separate"])
def test_cross_attention_made_from_torch_gives_the_same_output(bias, width):
    module = torch_layer(bias=bias, kdim=width, vdim=width)
    target, memory = tokens(B, T, d_model), tokens(B, T_source, width, seed=1)
    real = torch.ones(B, T_source, dtype=torch.bool)
    real[0, 4:] = False
    expected = module(target, memory, memory, key_padding_mask=~real, average_attn_weights=False)
    got = CrossAttention.from_torch(module)(target, memory, real)
    torch.testing.assert_close(got[0], expected[0])
    torch.testing.assert_close(got[1], expected[1])


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", [MultiHeadAttention, CrossAttention])
def test_a_layer_made_for_torch_gives_the_same_output(kind, bias):
    layer = layer_of(kind, bias=bias).eval()
    x = tokens(B, T, d_model)
    memory = x if kind is MultiHeadAttention else tokens(B, T_source, d_memory, seed=1)
    output = layer(x)[0] if kind is MultiHeadAttention else layer(x, memory)[0]
    torch.testing.assert_close(layer.to_torch()(x, memory, memory)[0], output)


@pytest.mark.parametrize("module", [torch_layer(bias=False), torch_layer(bias=True)], ids=["plain", "bias"])
def test_there_and_back_again_every_parameter_is_the_same(module):
    again = MultiHeadAttention.from_torch(module).to_torch()
    assert again.state_dict().keys() == module.state_dict().keys()
    assert all(torch.equal(again.state_dict()[name], value) for name, value in module.state_dict().items())


def test_what_is_carried_is_a_copy_with_the_same_settings():
    module = torch_layer(dropout=0.25).train()
    layer = MultiHeadAttention.from_torch(module)
    assert (layer.dropout, layer.training, layer.q_proj.weight.dtype) == (0.25, True, torch.float64)
    assert not layer.eval().to_torch().training
    assert not MultiHeadAttention.from_torch(module.eval()).training
    assert layer.to_torch().dropout == 0.25
    before = module.out_proj.weight.clone()
    with torch.no_grad():
        layer.out_proj.weight.zero_()
    assert torch.equal(module.out_proj.weight, before)


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_keys_that_stand_for_no_token_are_not_carried(option):
    with pytest.raises(SoftlookupError, match=f"{option} adds a key that stands for no token"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(d_model, H, **{option: True}))


def test_shared_key_value_heads_are_not_carried():
    with pytest.raises(SoftlookupError, match="1 key/value heads for 3 query heads"):
        MultiHeadAttention(d_model, H, num_kv_heads=1).to_torch()


def test_self_attention_has_one_width():
    with pytest.raises(SoftlookupError, match=r"(?s)kdim 10, vdim 10.*CrossAttention\.from_torch"):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(d_model, H, kdim=d_memory, vdim=d_memory))


def test_cross_attention_has_one_memory():
    with pytest.raises(SoftlookupError, match="kdim 10, vdim 9"):
        CrossAttention.from_torch(nn.MultiheadAttention(d_model, H, kdim=10, vdim=9))


def test_only_a_torch_layer_can_be_carried():
    with pytest.raises(SoftlookupError, match="Linear"):
        MultiHeadAttention.from_torch(nn.Linear(2, 2))


# Masks


@pytest.mark.parametrize("floating", [False, True], ids=["bool", "bias"])
def test_masks_of_two_three_and_four_axes_mean_the_same(floating):
    layer, x = layer_of(MultiHeadAttention), tokens(B, T, d_model)
    allowed = causal_mask()
    mask = torch.zeros(T, T).masked_fill(~allowed, -math.inf) if floating else allowed
    _, weights = layer(x, mask)
    assert torch.equal(weights > 0, allowed.expand(B, H, T, T))
    for same in (mask.expand(B, T, T), mask.expand(1, 1, T, T), mask.expand(B, H, T, T)):
        torch.testing.assert_close(layer(x, same)[1], weights)


def test_a_mask_of_three_axes_belongs_to_samples_and_not_to_heads():
    layer, x = (
        layer_of(MultiHeadAttention, num_kv_heads=1),
        tokens(H, T, d_model),
    )  # B == H: both would broadcast
    allowed = torch.ones(H, T, T, dtype=torch.bool)
    allowed[1, :, 2] = False
    _, weights = layer(x, allowed)
    assert torch.equal(weights == 0, ~allowed[:, None].expand(H, H, T, T))


def test_a_mask_object_reaches_the_scores():
    from softlookup.masks import causal, padding

    layer, x = layer_of(MultiHeadAttention), tokens(B, T, d_model)
    mask = causal() & padding([3, 5])
    _, weights = layer(x, mask)
    assert torch.equal(weights > 0, mask.dense(T, T).expand(B, H, T, T))


@pytest.mark.parametrize("shape", [(T,), (B, T), (T, T + 1), (1, 1, 1, T, T)], ids=str)
def test_a_mask_of_another_shape_is_refused(shape):
    with pytest.raises(
        SoftlookupError, match=r"(?s)\[T T\], \[B T T\].*\[B H T T\].*B=2, H=3, T=5.*None, None"
    ) as error:
        layer_of(MultiHeadAttention)(tokens(B, T, d_model), torch.ones(shape).bool())
    assert str(shape) in str(error.value)


def test_a_mask_of_another_batch_is_refused():
    with pytest.raises(SoftlookupError, match="does not broadcast"):
        layer_of(MultiHeadAttention)(tokens(B, T, d_model), torch.ones(4, T, T).bool())


def test_memory_masks_of_two_three_and_four_axes_hide_source_positions():
    layer = layer_of(CrossAttention)
    target, memory = tokens(B, T, d_model), tokens(B, T_source, d_memory, seed=1)
    real = torch.ones(B, T_source, dtype=torch.bool)
    real[1, 5:] = False
    _, weights = layer(target, memory, real)
    assert weights.shape == (B, H, T, T_source)
    assert torch.equal(weights > 0, real[:, None, None].expand_as(weights))
    for same in (real[:, None].expand(B, T, T_source), real[:, None, None]):
        torch.testing.assert_close(layer(target, memory, same)[1], weights)


@pytest.mark.parametrize("shape", [(B, T), (T, T_source), (T_source,)], ids=str)
def test_a_memory_mask_of_another_shape_is_refused(shape):
    words = r"(?s)\[B T_source\], \[B T_target T_source\].*\[B H T_target T_source\].*T_source=7.*the source"
    with pytest.raises(SoftlookupError, match=words):
        layer_of(CrossAttention)(
            tokens(B, T, d_model), tokens(B, T_source, d_memory), torch.ones(shape).bool()
        )


def test_a_sample_of_padding_is_named():
    with pytest.raises(SoftlookupError, match="every query of batch 1 is empty"):
        layer_of(MultiHeadAttention)(
            tokens(B, T, d_model), torch.tensor([[True] * T, [False] * T])[:, None, None]
        )


# Cross-attention


def test_queries_come_from_the_target_and_the_rest_from_the_memory():
    layer = layer_of(CrossAttention)
    target, memory = tokens(B, T, d_model), tokens(B, T_source, d_memory, seed=1)
    output, weights = layer(target, memory)
    q, k, v = layer.q_proj(target), layer.k_proj(memory), layer.v_proj(memory)
    q, k, v = (layer.split_heads(projected) for projected in (q, k, v))
    context, expected = scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(output, layer.out_proj(context.transpose(1, 2).flatten(2)))


def test_a_memory_of_another_batch_is_refused():
    with pytest.raises(SoftlookupError, match="different leading axes"):
        layer_of(CrossAttention)(tokens(B, T, d_model), tokens(3, T_source, d_memory))


# Building, training, saving


@pytest.mark.parametrize(
    ("sizes", "options", "words"),
    [
        ((10, 3), {}, "d_model a multiple of num_heads"),
        ((10, 0), {}, "d_model a multiple of num_heads"),
        ((0, 1), {}, "d_model a multiple of num_heads"),
        ((12, 6), {"num_kv_heads": 4}, "num_heads a multiple of num_kv_heads"),
        ((12, 6), {"num_kv_heads": 0}, "num_heads a multiple of num_kv_heads"),
        ((12, 6), {"dropout": 1.5}, "dropout is a probability"),
    ],
    ids=str,
)
def test_sizes_that_do_not_divide_are_refused(sizes, options, words):
    with pytest.raises(ValueError, match=words):
        MultiHeadAttention(*sizes, **options)
    with pytest.raises(ValueError, match=words):
        CrossAttention(*sizes, **options)


@pytest.mark.parametrize("shape", [(T, d_model), (B, T, d_model + 1), (B, 1, T, d_model)], ids=str)
def test_tokens_of_another_shape_are_refused(shape):
    with pytest.raises(SoftlookupError, match=r"x is no batch of token vectors"):
        layer_of(MultiHeadAttention)(tokens(*shape))
    with pytest.raises(SoftlookupError, match=r"query_states is no batch"):
        layer_of(CrossAttention)(tokens(*shape), tokens(B, T, d_memory))
    with pytest.raises(SoftlookupError, match=r"memory_states is no batch"):
        layer_of(CrossAttention)(tokens(B, T, d_model), tokens(*shape))


def test_dropout_acts_in_training_only():
    layer, x = layer_of(MultiHeadAttention, dropout=0.5), tokens(B, T, d_model)
    _, dropped = layer.train()(x)
    assert (dropped == 0).any()
    _, whole = layer.eval()(x)
    torch.testing.assert_close(whole.sum(-1), torch.ones(B, H, T, dtype=torch.float64))
    torch.testing.assert_close(dropped[dropped != 0], whole[dropped != 0] * 2)


@pytest.mark.parametrize("kind", [MultiHeadAttention, CrossAttention])
def test_a_state_dict_makes_the_same_layer_again(kind, tmp_path):
    layer = layer_of(kind, bias=True, num_kv_heads=1)
    torch.save(layer.state_dict(), tmp_path / "layer.pt")
    other = layer_of(kind, bias=True, num_kv_heads=1)
    nn.init.zeros_(other.q_proj.weight)
    other.load_state_dict(torch.load(tmp_path / "layer.pt", weights_only=True))
    inputs = [tokens(B, T, d_model)] + ([tokens(B, T_source, d_memory)] if kind is CrossAttention else [])
    assert torch.equal(other(*inputs)[0], layer(*inputs)[0])
    names = {f"{part}_proj.{kind}" for part in ("q", "k", "v", "out") for kind in ("weight", "bias")}
    assert layer.state_dict().keys() == names


def test_options_of_tensors_reach_every_projection():
    layer = MultiHeadAttention(12, 3, bias=True, device="meta", dtype=torch.bfloat16)
    assert {(str(p.device), p.dtype) for p in layer.parameters()} == {("meta", torch.bfloat16)}
    assert len(list(layer.parameters())) == 8


def test_gradients_reach_every_parameter():
    layer = layer_of(CrossAttention, bias=True)
    layer(tokens(B, T, d_model), tokens(B, T_source, d_memory, seed=1))[0].square().sum().backward()
    for name, parameter in layer.named_parameters():
        if name == "k_proj.bias":  # moves all scores of a row alike: softmax does not see it
            assert parameter.grad.abs().max() < 1e-12
        else:
            assert parameter.grad.abs().max() > 1e-6, name


def test_a_printed_layer_says_its_sizes():
    assert "num_heads=6, d_head=2, num_kv_heads=2, dropout=0.1" in repr(
        MultiHeadAttention(12, 6, 0.1, num_kv_heads=2)
    )


def test_the_examples_in_the_docstrings_run():
    result = doctest.testmod(softlookup.multihead)
    assert result.attempted >= 6
    assert result.failed == 0
