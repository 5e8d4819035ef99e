"""Layers are recorded in the order in which they finish, without a trace and without changing an answer."""

import pytest
import torch
from tiny_models import nanogpt
from torch import nn

from softlookup.live.layer_outputs import recorded_layers


def test_answers_are_the_same_bits_while_layers_are_recorded():
    model, ids = nanogpt().eval(), torch.arange(12).repeat(2, 1)
    plain = model(ids)[0]
    with recorded_layers(model):
        assert torch.equal(model(ids)[0], plain)


def test_a_layer_comes_after_the_layers_inside_it_and_the_model_last():
    model = nanogpt()
    with recorded_layers(model) as seen:
        model(torch.arange(6)[None])
    paths = [call.path for call in seen.calls]
    assert (
        paths.index("h.0.attn.c_attn")
        < paths.index("h.0.attn")
        < paths.index("h.0")
        < paths.index("h.1.ln_1")
    )
    assert paths[-1] == ""


def test_a_layer_that_is_called_twice_is_counted_and_a_new_forward_starts_anew():
    layer = nn.Linear(2, 2)
    model = nn.Sequential(layer, layer)
    with recorded_layers(model) as seen:
        model(torch.zeros(1, 2))
        model(torch.zeros(1, 2))
    counted = [(call.path, call.forward, call.number) for call in seen.calls if call.path]
    assert counted == [("0", 0, 0), ("0", 0, 1), ("0", 1, 0), ("0", 1, 1)]


def test_what_a_later_layer_changes_in_place_is_recorded_as_it_was():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    with recorded_layers(model) as seen:
        model(torch.randn(4, 3, generator=torch.Generator().manual_seed(0)))
    by_path = {call.path: call.output for call in seen.calls}
    assert (by_path["0"] < 0).any()
    assert torch.equal(by_path["1"], by_path["0"].relu())


def test_hooks_are_gone_after_the_block_and_after_an_exception():
    model = nanogpt()
    with pytest.raises(IndexError), recorded_layers(model):
        model(torch.full((1, 4), 64))  # one more than there are ids
    assert not any(it._forward_hooks or it._forward_pre_hooks for it in model.modules())


def test_gradients_flow_through_what_is_recorded_with_its_graph():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    with recorded_layers(model, keep_graph=True) as seen:
        output = model(torch.ones(1, 2))
    inner = next(call.output for call in seen.calls if call.path == "0")
    (gradient,) = torch.autograd.grad(output.sum(), inner)
    assert torch.equal(gradient, model[1].weight)
