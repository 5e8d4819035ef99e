"""AttendMultiheadAttention is nn.MultiheadAttention by ``attend``; use_attend swaps it in for a while."""

import copy
import inspect
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import softlookup
from softlookup import AttendMultiheadAttention, SoftlookupError, use_attend
from softlookup.fused import attending

B, T_Q, T_K, WIDTH, HEADS = 3, 5, 7, 8, 2
EXACT = {torch.float64: 1e-10, torch.float32: 1e-5}
OPTIONS = {
    "plain": {},
    "batch last": {"batch_first": False},
    "no bias": {"bias": False},
    "bias_k and bias_v": {"add_bias_kv": True},
    "a zero key": {"add_zero_attn": True},
    "both more keys": {"add_bias_kv": True, "add_zero_attn": True, "batch_first": False},
    "other widths": {"kdim": 6, "vdim": 10},
    "other widths, more keys, no bias": {"kdim": 6, "vdim": 10, "add_bias_kv": True, "bias": False},
    "one head": {"num_heads": 1},
}


def pair(dtype=torch.float64, **options):
    """The layer of PyTorch and ours, of the same random parameters."""
    torch.manual_seed(0)
    options = {"batch_first": True, "num_heads": HEADS, **options}
    theirs = nn.MultiheadAttention(WIDTH, **options, dtype=dtype)
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)  # biases too, which begin as 0
    ours = AttendMultiheadAttention(WIDTH, **options, dtype=dtype)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def tokens(layer, length, width, batch=B):
    shape = (batch, length, width) if layer.batch_first else (length, batch, width)
    weight = layer.out_proj.weight
    return torch.randn(shape, dtype=weight.dtype, requires_grad=True)


def masks(kind, padded, q_len=T_Q, k_len=T_K, batch=B, heads=HEADS, dtype=torch.float64):
    """attn_mask and key_padding_mask in which every query sees the first key."""
    made = {}
    if kind != "none":
        shape = (q_len, k_len) if "2-D" in kind else (batch * heads, q_len, k_len)
        hidden = torch.rand(shape) < 0.4
        hidden[..., 0] = False
        biased = torch.randn(shape, dtype=dtype).masked_fill(hidden, -math.inf)
        made["attn_mask"] = hidden if "bool" in kind else biased
    if padded != "none":
        lengths = torch.arange(batch) % k_len + 1
        hidden = torch.arange(k_len) >= lengths[:, None]
        added = torch.zeros(batch, k_len, dtype=dtype).masked_fill(hidden, -math.inf)
        made["key_padding_mask"] = hidden if padded == "bool" else added
    return made


def gradients(output, weights, layer, inputs):
    loss = (output * torch.linspace(-1, 1, output.numel(), dtype=output.dtype).reshape(output.shape)).sum()
    if weights is not None:
        loss = (
            loss
            + (
                weights * torch.linspace(1, 2, weights.numel(), dtype=output.dtype).reshape(weights.shape)
            ).sum()
        )
    return torch.autograd.grad(loss, [*dict.fromkeys(inputs), *layer.parameters()])


def assert_same(theirs, ours, inputs, **arguments):
    dtype = inputs[0].dtype
    near = {"atol": EXACT[dtype], "rtol": EXACT[dtype]}
    expected, expected_weights = theirs(*inputs, **arguments)
    output, weights = ours(*inputs, **arguments)
    torch.testing.assert_close(output, expected, **near)
    assert (weights is None) == (expected_weights is None)
    if weights is not None:
        torch.testing.assert_close(weights, expected_weights, **near)
    for found, wanted in zip(
        gradients(output, weights, ours, inputs),
        gradients(expected, expected_weights, theirs, inputs),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, atol=near["atol"] * 10, rtol=near["rtol"] * 10)


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@pytest.mark.parametrize("weights", [None, "averaged", "of each head"])
@pytest.mark.parametrize("padded", ["none", "bool", "float"])
@pytest.mark.parametrize("kind", ["none", "bool 2-D", "bool 3-D", "float 2-D", "float 3-D"])
@pytest.mark.parametrize("name", OPTIONS)
def test_output_weights_and_gradients_are_those_of_pytorch(name, kind, padded, weights):
    theirs, ours = pair(**OPTIONS[name])
    inputs = [tokens(ours, T_Q, WIDTH), tokens(ours, T_K, ours.kdim), tokens(ours, T_K, ours.vdim)]
    arguments = masks(kind, padded, heads=ours.num_heads)
    arguments |= {"need_weights": weights is not None, "average_attn_weights": weights == "averaged"}
    assert_same(theirs, ours, inputs, **arguments)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("weights", [True, False])
def test_self_attention_in_float32(batch_first, weights):
    theirs, ours = pair(torch.float32, batch_first=batch_first)
    x = tokens(ours, T_Q, WIDTH)
    hidden = torch.ones(T_Q, T_Q, dtype=torch.bool).triu(1)
    assert_same(theirs, ours, [x, x, x], attn_mask=hidden, is_causal=True, need_weights=weights)


@pytest.mark.parametrize("weights", ["averaged", "of each head"])
def test_one_sequence_without_a_batch_axis(weights):
    theirs, ours = pair()
    inputs = [torch.randn(n, WIDTH, dtype=torch.float64, requires_grad=True) for n in (T_Q, T_K, T_K)]
    arguments = masks("bool 3-D", "none", batch=1)
    arguments["key_padding_mask"] = torch.arange(T_K) >= 4
    assert_same(theirs, ours, inputs, **arguments, average_attn_weights=weights == "averaged")


@pytest.mark.filterwarnings("ignore:Support for mismatched")
@settings(max_examples=100, deadline=None)
@given(st.data())
def test_any_shape_and_any_masks(data):
    draw = data.draw
    batch, q_len, k_len = (draw(st.integers(1, 6)) for _ in range(3))
    heads, d_head = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    torch.manual_seed(draw(st.integers(0, 99)))
    options = {name: draw(st.booleans()) for name in ("bias", "add_bias_kv", "add_zero_attn", "batch_first")}
    options |= {name: draw(st.none() | st.integers(1, 9)) for name in ("kdim", "vdim")}
    theirs = nn.MultiheadAttention(heads * d_head, heads, **options, dtype=torch.float64)
    ours = AttendMultiheadAttention(heads * d_head, heads, **options, dtype=torch.float64)
    ours.load_state_dict(theirs.state_dict())
    inputs = [
        tokens(ours, length, width, batch)
        for length, width in ((q_len, heads * d_head), (k_len, ours.kdim), (k_len, ours.vdim))
    ]
    arguments = masks(
        draw(st.sampled_from(["none", "bool 2-D", "bool 3-D", "float 2-D", "float 3-D"])),
        draw(st.sampled_from(["none", "bool", "float"])),
        q_len,
        k_len,
        batch,
        heads,
    )
    assert_same(theirs, ours, inputs, **arguments, need_weights=draw(st.booleans()))


def test_it_runs_attend(monkeypatch):
    seen = []
    monkeypatch.setattr(
        attending,
        "attend",
        lambda q, k, v, mask, **options: seen.append((q.shape, mask)) or torch.zeros_like(q),
    )
    _, ours = pair()
    x = tokens(ours, T_Q, WIDTH)
    ours(x, x, x, need_weights=False)
    assert seen == [(torch.Size([B, HEADS, T_Q, WIDTH // HEADS]), None)]


@pytest.mark.parametrize("weights", [True, False])
def test_a_watch_hears_one_call(weights):
    _, ours = pair(torch.float32)
    x = tokens(ours, T_Q, WIDTH).detach()
    with softlookup.watch(ours) as trace:
        ours(x, x, x, need_weights=weights)
    assert "1 of 1 attention layers seen, 1 calls measured" in str(trace)


def test_asking_for_weights_does_not_change_the_output():
    _, ours = pair(torch.float32)
    x = tokens(ours, T_Q, WIDTH)
    assert torch.equal(ours(x, x, x)[0], ours(x, x, x, need_weights=False)[0])
    ours.dropout = 0.5
    torch.manual_seed(3)
    with_weights = ours(x, x, x)[0]
    torch.manual_seed(3)
    assert torch.equal(with_weights, ours(x, x, x, need_weights=False)[0])


def test_dropout_acts_in_training_alone():
    theirs, ours = pair(dropout=0.5)
    x = tokens(ours, T_Q, WIDTH)
    assert not torch.equal(ours(x, x, x)[0], ours(x, x, x)[0])
    torch.testing.assert_close(ours.eval()(x, x, x)[0], theirs.eval()(x, x, x)[0])


@pytest.mark.parametrize("weights", [True, False])
def test_a_sample_of_padding_gives_zeros_and_spoils_no_gradient(weights):
    theirs, ours = pair()
    x = tokens(ours, T_Q, WIDTH)
    padding = torch.zeros(B, T_Q, dtype=torch.bool)
    padding[1] = True
    output, maps = ours(x, x, x, key_padding_mask=padding, need_weights=weights)
    torch.testing.assert_close(output[1], ours.out_proj.bias.expand(T_Q, -1))
    assert maps is None or (maps[1] == 0).all()
    found = gradients(output, maps, ours, [x])
    assert all(gradient.isfinite().all() for gradient in found)
    assert (found[0][1] == 0).all()
    expected, their_maps = theirs(x, x, x, key_padding_mask=padding, need_weights=weights)
    torch.testing.assert_close(output[[0, 2]], expected[[0, 2]])
    if weights:  # what PyTorch does, and why weights are not asked for by a watch
        assert expected[1].isnan().all()
        assert gradients(expected, their_maps, theirs, [x])[1].isnan().any(), "the weights of all samples"


def test_state_dicts_copies_and_signatures_are_those_of_pytorch():
    theirs, ours = pair(add_bias_kv=True)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    assert inspect.signature(AttendMultiheadAttention) == inspect.signature(nn.MultiheadAttention)
    ours_forward, their_forward = (
        [(p.name, p.default) for p in inspect.signature(it.forward).parameters.values()]
        for it in (ours, theirs)
    )
    assert ours_forward == their_forward
    x = tokens(ours, T_Q, WIDTH).detach()
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert type(copied) is AttendMultiheadAttention
        assert torch.equal(copied(x, x, x)[0], ours(x, x, x)[0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"attn_mask": torch.zeros(3, 3)}, r"attn_mask does not fit"),
        ({"key_padding_mask": torch.zeros(T_Q, B, dtype=torch.bool)}, r"key_padding_mask does not fit"),
        ({"is_causal": True}, r"is_causal says that attn_mask is causal"),
        ({"attn_mask": torch.zeros(T_Q, T_Q, dtype=torch.int)}, r"integer attention_mask"),
    ],
)
def test_what_does_not_fit_is_refused_in_words(arguments, words):
    _, ours = pair()
    x = tokens(ours, T_Q, WIDTH)
    with pytest.raises(SoftlookupError, match=words):
        ours(x, x, x, **arguments)


def test_nested_tensors_are_refused():
    _, ours = pair()
    x = torch.nested.nested_tensor([torch.randn(n, WIDTH, dtype=torch.float64) for n in (2, 3)])
    with pytest.raises(SoftlookupError, match=r"(?s)no nested tensors.*use_attend"):
        ours(x, x, x)


@pytest.mark.parametrize("weights", [True, False])
def test_it_compiles_as_one_graph(weights):
    _, ours = pair(torch.float32)
    x = tokens(ours, T_Q, WIDTH).detach()
    padding = torch.arange(T_Q) >= torch.tensor([[5], [2], [4]])
    compiled = torch.compile(ours, backend="aot_eager", fullgraph=True)
    found = compiled(x, x, x, key_padding_mask=padding, need_weights=weights)
    expected = ours(x, x, x, key_padding_mask=padding, need_weights=weights)
    torch.testing.assert_close(found, expected)


def transformer(kind):
    torch.manual_seed(0)
    size = {"d_model": WIDTH, "nhead": HEADS, "dim_feedforward": 16, "batch_first": True, "dropout": 0.0}
    if kind == "encoder layer":
        return nn.TransformerEncoderLayer(**size)
    if kind == "encoder":
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(**size), 2)
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(**size), 2)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["encoder layer", "encoder", "decoder"])
def test_the_layers_of_a_transformer_run_attend_and_give_the_same_at_real_tokens(kind, training, monkeypatch):
    model = transformer(kind).train(training)
    x = torch.randn(B, T_Q, WIDTH)
    padding = torch.arange(T_Q) >= torch.tensor([[5], [2], [4]])
    arguments = {"memory": x * 0.5, "tgt_key_padding_mask": padding} if kind == "decoder" else {}
    arguments |= {} if kind == "decoder" else {"src_key_padding_mask": padding}
    calls = []
    original = attending.attend
    monkeypatch.setattr(attending, "attend", lambda *a, **k: calls.append(a[0].shape) or original(*a, **k))
    with torch.set_grad_enabled(training):
        before = model(x, **arguments)
        assert calls == []
        with use_attend(model) as layers:
            during = model(x, **arguments)
        assert len(calls) == len(layers) == {"encoder layer": 1, "encoder": 2, "decoder": 4}[kind]
        after = model(x, **arguments)
    torch.testing.assert_close(during[~padding], before[~padding], atol=1e-5, rtol=0)
    assert torch.equal(after, before)


def test_use_attend_shares_parameters_and_restores_everything_also_after_an_exception():
    model = transformer("encoder").eval()
    states = {path: dict(vars(module)) for path, module in model.named_modules()}
    types = {path: type(module) for path, module in model.named_modules()}
    parameters = dict(model.named_parameters())

    def fails_inside():
        with use_attend(model):
            assert all(parameters[name] is parameter for name, parameter in model.named_parameters())
            assert type(model.layers[0].self_attn) is AttendMultiheadAttention
            raise RuntimeError("of the user")

    with pytest.raises(RuntimeError, match="of the user"):
        fails_inside()
    assert {path: type(module) for path, module in model.named_modules()} == types
    assert {path: dict(vars(module)) for path, module in model.named_modules()} == states


def test_without_with_it_stays_until_it_is_restored():
    model = transformer("encoder layer")
    kept = use_attend(model)
    assert isinstance(model.self_attn, AttendMultiheadAttention)
    kept.restore()
    kept.restore()
    assert type(model.self_attn) is nn.MultiheadAttention


def test_layers_of_other_widths_are_restored_as_they_were():
    model = nn.ModuleList([nn.MultiheadAttention(8, 2, kdim=6)])
    with use_attend(model):
        pass
    assert model[0]._qkv_same_embed_dim is False


def test_a_class_of_its_own_is_left_as_it_is():
    class Own(nn.MultiheadAttention):
        pass

    model = nn.ModuleDict({"own": Own(8, 2), "plain": nn.MultiheadAttention(8, 2)})
    with use_attend(model) as layers:
        assert layers == ["plain"]
        assert type(model["own"]) is Own
    with pytest.raises(SoftlookupError, match="the model: Own"):
        use_attend(model["own"])
    with pytest.raises(SoftlookupError, match="there is no layer to replace"):
        use_attend(nn.Linear(2, 2))


def test_hooks_are_kept():
    model = transformer("encoder layer").train()
    seen = []
    model.self_attn.register_forward_hook(lambda *a: seen.append(type(a[0])))
    with use_attend(model):
        model(torch.randn(1, 3, WIDTH))
    assert seen == [AttendMultiheadAttention]
