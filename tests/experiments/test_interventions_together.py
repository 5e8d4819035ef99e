"""Interventions on our own module, with a cache, with gradients, several at once, and as others see them."""

import math
import sys

import pytest
import torch
from reference_attention import Change, Outputs, Reference, Scaled, WithoutKey, first_tensor
from watched_models import Fused, HandWritten, Small, tokens

import softlookup
from softlookup import watch
from softlookup.experiments import (
    ablate,
    freeze_map,
    intervene,
    permuted_map,
    previous_token_map,
    remove_source,
    scale_logits,
    uniform_map,
)
from softlookup.masks import causal
from softlookup.recording import record_attention


def numbers(*shape, seed=3):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def our_module():
    torch.manual_seed(0)
    return softlookup.MultiHeadAttention(24, num_heads=4, num_kv_heads=2).double().eval()


def our_module_by_hand(module, x, change):
    """The four projections and the lookup of ``MultiHeadAttention``, written anew; causal."""
    q, k, v = (
        (x @ getattr(module, name).weight.T).unflatten(-1, (-1, 6)).transpose(1, 2)
        for name in ("q_proj", "k_proj", "v_proj")
    )
    k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
    scores = q @ k.transpose(-1, -2) / math.sqrt(6)
    later = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
    scores = scores.masked_fill(later, float("-inf"))
    heads = change.outputs(scores.softmax(-1) @ v) if change.of_outputs else change(scores, v)
    return heads.transpose(1, 2).flatten(2) @ module.out_proj.weight.T


OURS = {
    "remove_source": (remove_source(1, layer="", head=2), WithoutKey(1, 2)),
    "scale_logits": (scale_logits(2.5, layer="*", head=1), Scaled(2.5, 1)),
    "zero": (ablate(layer="", head=3), Outputs(torch.zeros_like, 3)),
}


@pytest.mark.parametrize("what", OURS)
def test_our_own_module_is_changed_as_by_hand(what):
    module, x = our_module(), numbers(2, 7, 24)
    done, change = OURS[what]
    with intervene(module, done):
        output, weights = module(x, causal())
    torch.testing.assert_close(output, our_module_by_hand(module, x, change), rtol=0, atol=1e-12)
    assert type(output) is type(weights) is torch.Tensor


@pytest.mark.parametrize("what", OURS)
def test_gradients_of_our_own_module_are_those_of_the_same_by_hand(what):
    module, x = our_module(), numbers(2, 7, 24).requires_grad_()
    done, change = OURS[what]
    with intervene(module, done):
        output, _ = module(x, causal())
    by_hand = our_module_by_hand(module, x, change)
    inputs = [x, *module.parameters()]
    found = torch.autograd.grad(output.square().sum(), inputs)
    wanted = torch.autograd.grad(by_hand.square().sum(), inputs)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def llama(implementation):
    pytest.importorskip("transformers")
    from watched_models import FAMILIES

    model, inputs = FAMILIES["llama"](implementation)
    return model.double(), inputs["input_ids"]


LLAMA = "model.layers.1.self_attn"


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_one_new_token_after_a_cache_is_changed_as_in_the_whole_sequence(implementation, padded):
    """Beside a mask, transformers hands heads over as queries then: a head must stay a head."""
    model, ids = llama(implementation)
    model, mask = model.float(), torch.ones_like(ids)
    if padded:
        mask[1, :2] = 0
    at = {"layer": LLAMA, "head": [1, 2]}
    doing = (remove_source(2, **at), scale_logits(0.5, layer=LLAMA, head=3), ablate(layer=LLAMA, head=0))
    with torch.no_grad(), intervene(model, *doing):
        whole = model(ids, attention_mask=mask).logits[:, -1]
        before = model(ids[:, :-1], attention_mask=mask[:, :-1], use_cache=True)
        last = model(ids[:, -1:], attention_mask=mask, past_key_values=before.past_key_values).logits[:, -1]
    torch.testing.assert_close(last, whole, rtol=0, atol=1e-5)


@pytest.mark.parametrize("family", ["llama", "t5"])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_gradients_through_a_model_are_those_of_the_same_by_hand(family, implementation):
    pytest.importorskip("transformers")
    from watched_models import FAMILIES

    path = {"llama": LLAMA, "t5": "encoder.block.1.layer.0.SelfAttention"}[family]
    gradients = {}
    for way in ("by hand", implementation):
        model, inputs = FAMILIES[family]("eager" if way == "by hand" else way)
        model = model.double()
        layer = model.get_submodule(path)
        both = WithoutKey(2, 1)
        both.of_outputs = False
        reference = Reference(sys.modules[type(layer).__module__], layer, both)
        with (
            reference.in_place()
            if way == "by hand"
            else intervene(model, remove_source(2, layer=path, head=1))
        ):
            output = first_tensor(model(**inputs))
        real = inputs["attention_mask"].bool() if family == "llama" else slice(None)
        output[real].square().mean().backward()
        gradients[way] = {name: it.grad for name, it in model.named_parameters() if it.grad is not None}
    assert gradients["by hand"].keys() == gradients[implementation].keys()
    for name, wanted in gradients["by hand"].items():
        scale = float(wanted.abs().max()) or 1.0
        close = 1e-5 if family == "llama" else 1e-9  # llama's own softmax is in float32
        torch.testing.assert_close(gradients[implementation][name], wanted, rtol=0, atol=close * scale)


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_rows_that_were_not_asked_for_stay_as_they_are_bit_for_bit(kind):
    model, ids = Small(kind).eval(), tokens()
    plain = record_attention(model, ids)
    with intervene(model, ablate(layer="blocks.0", head=1, query=[4, 6], sample=1)):
        ablated = record_attention(model, ids)
    with intervene(model, remove_source(5, layer="blocks.0", head=1)):
        removed = record_attention(model, ids)
    outputs = ablated["blocks.0"].outputs
    touched = torch.zeros(2, 4, 9, dtype=torch.bool)
    touched[1, 1, [4, 6]] = True
    assert (outputs[touched] == 0).all()
    assert torch.equal(outputs[~touched], plain["blocks.0"].outputs[~touched])
    touched[:] = False
    touched[:, 1, 5:] = True  # no query before position 5 sees it
    assert torch.equal(removed["blocks.0"].outputs[~touched], plain["blocks.0"].outputs[~touched])
    assert torch.equal(removed.output[:, :5], plain.output[:, :5])
    assert not torch.equal(removed.output[:, 5:], plain.output[:, 5:])


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_without_interventions_nothing_changes(kind):
    model, ids = Small(kind).eval(), tokens()
    plain = model(ids)
    with intervene(model):
        assert torch.equal(model(ids), plain)


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_a_recording_and_a_watch_inside_see_the_maps_that_were_put_in_place(kind):
    model, ids = Small(kind).eval(), tokens()
    with intervene(
        model, remove_source(3, layer="blocks.0", head=1), previous_token_map(layer="blocks.1", head=2)
    ):
        recording = record_attention(model, ids)
        with watch(model, queries=None) as trace:
            model(ids)
    assert (recording["blocks.0"].weights(heads=[1])[:, :, 3] == 0).all()
    assert (recording["blocks.0"].weights(heads=[0])[:, 3:, 3] > 0).all()
    torch.testing.assert_close(recording["blocks.0"].weights().sum(-1), torch.ones(4, 9))
    previous = recording["blocks.1"].weights(heads=[2])[0]
    assert torch.equal(previous.argmax(-1), torch.tensor([0, 0, 1, 2, 3, 4, 5, 6, 7]))
    assert torch.equal(previous.amax(-1), torch.ones(9))
    numbers_of = {it.call.layer: it.statistics for it in trace.records}
    assert float(numbers_of["blocks.1"].entropy_nats[0, 2]) == pytest.approx(0, abs=1e-6)
    assert float(numbers_of["blocks.1"].entropy_nats[0, 1]) > 0.5


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_what_is_recorded_inside_is_what_was_mixed(kind):
    model, ids = Small(kind).double().eval(), tokens()
    for doing in (permuted_map(layer="blocks.1"), uniform_map(layer="blocks.1"), remove_source(0, layer="*")):
        with intervene(model, doing):
            call = record_attention(model, ids)["blocks.1"]
        mixed = call.weights(1, dtype=torch.float64) @ call.values[1]
        torch.testing.assert_close(call.outputs[1], mixed, rtol=0, atol=1e-12)


def test_a_permuted_map_has_the_same_weights_on_other_keys_that_are_seen():
    model, ids = Small(Fused).eval(), tokens()
    plain = record_attention(model, ids)["blocks.0"]
    with intervene(model, permuted_map(7, layer="blocks.0")):
        permuted = record_attention(model, ids)["blocks.0"]
        again = record_attention(model, ids)["blocks.0"]
    with intervene(model, permuted_map(7, layer="blocks.0", head=2, query=8, sample=1)):
        alone = record_attention(model, ids)["blocks.0"]
    with intervene(model, permuted_map(8, layer="blocks.0")):
        other = record_attention(model, ids)["blocks.0"]
    found, before = permuted.weights(1), plain.weights(1)
    torch.testing.assert_close(found.sort(-1).values, before.sort(-1).values)
    assert (found.triu(1) == 0).all()  # nobody looks ahead
    moved = (found - before).abs().amax(-1) > 1e-4  # [H, T_q]
    assert moved[:, 4:].float().mean() > 0.9
    assert not torch.equal(found[0].argmax(-1), found[1].argmax(-1))
    assert torch.equal(found, again.weights(1))
    torch.testing.assert_close(found[2, 8], alone.weights(1)[2, 8])  # the same, whoever else is asked for
    assert not torch.equal(found, other.weights(1))


def test_steps_run_in_the_order_of_attention_and_then_as_given():
    model, ids = Small(Fused).eval(), tokens()
    at = {"layer": "blocks.0", "head": 1}
    with intervene(model, uniform_map(**at), remove_source(2, **at)):
        weights = record_attention(model, ids)["blocks.0"].weights(heads=[1])[0]
    assert weights[5].tolist() == pytest.approx([0.2, 0.2, 0, 0.2, 0.2, 0.2, 0, 0, 0])
    with intervene(model, previous_token_map(**at), uniform_map(**at)):
        last_wins = record_attention(model, ids)["blocks.0"].weights(heads=[1])[0]
    assert last_wins[3].tolist() == pytest.approx([0.25] * 4 + [0] * 5)


def test_a_removed_source_stays_removed_in_a_map_that_is_put_in_place():
    model, ids = Small(Fused).eval(), tokens()
    recording = record_attention(model, ids.flip(1))
    at = {"layer": "blocks.0", "head": 1}
    with intervene(model, remove_source(2, **at), freeze_map(recording, **at)):
        found = record_attention(model, ids)["blocks.0"].weights(heads=[1])[0]
    wanted = recording["blocks.0"].weights(heads=[1])[0].clone()
    wanted[:, 2] = 0
    torch.testing.assert_close(found, wanted / wanted.sum(-1, keepdim=True))


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_blocks_inside_one_another_are_one_list_of_interventions(kind):
    model, ids = Small(kind).eval(), tokens()
    a, b = scale_logits(0.5, layer="blocks.*", head=[0, 1]), remove_source(1, layer="*", head=[1, 2])
    c = ablate(layer="blocks.1", head=0)
    with intervene(model, a, b, c):
        together = model(ids)
    with intervene(model, a), intervene(model.blocks, remove_source(1, layer="*", head=[1, 2])):
        with intervene(model, c):
            nested = model(ids)
        outside = model(ids)
    assert torch.equal(together, nested)
    with intervene(model, a, b):
        assert torch.equal(outside, model(ids))


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_a_query_without_keys_finds_zeros_and_has_gradients(kind):
    model, ids = Small(kind).eval(), tokens()
    with intervene(model, remove_source(0, layer="blocks.0")):
        recording = record_attention(model, ids)
        model(ids).square().mean().backward()
    assert (recording["blocks.0"].outputs[:, :, 0] == 0).all()
    assert (recording["blocks.0"].weights()[:, 0] == 0).all()
    assert all(bool(it.grad.isfinite().all()) for it in model.parameters())


def test_keys_and_queries_may_be_counted_from_the_end():
    model, ids = Small(Fused).eval(), tokens()
    with intervene(model, remove_source(-2, layer="blocks.0", query=-1)):
        found = model(ids)
    with intervene(model, remove_source(7, layer="blocks.0", query=8)):
        assert torch.equal(found, model(ids))


def test_an_object_with_a_method_named_after_a_step_is_an_intervention():
    class Sharper:
        layer, head = "blocks.0", 1

        def score(self, at, scores):
            assert scores.shape == (2, 1, 9, 9)
            assert at.allowed[0, 0, 2].tolist() == [True] * 3 + [False] * 6
            return scores * 3

    model, ids = Small(Fused).eval(), tokens()
    with intervene(model, Sharper()):
        found = model(ids)
    with intervene(model, scale_logits(3, layer="blocks.0", head=1)):
        assert torch.equal(found, model(ids))


def test_a_forward_under_autocast_is_changed_in_its_own_dtype():
    model, ids = Small(Fused).eval(), tokens()
    with torch.autocast("cpu", torch.bfloat16), intervene(model, remove_source(0, layer="*", head=0)):
        low = model(ids)
    with intervene(model, remove_source(0, layer="*", head=0)):
        high = model(ids)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), high, rtol=0, atol=0.05)


def test_change_by_hand_is_itself_checked_against_torch():
    """The reference without a change is torch's own function."""
    q, k, v = (numbers(2, 4, 5, 8, seed=n) for n in range(3))
    later = torch.zeros(5, 5, dtype=torch.float64).masked_fill(torch.ones(5, 5).triu(1).bool(), float("-inf"))
    found = Change()(q @ k.transpose(-1, -2) / math.sqrt(8) + later, v)
    wanted = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("by_softmax", [False, True])
def test_a_query_that_saw_no_key_stays_as_it_is(by_softmax):
    """Padding that sees nothing gets what the model makes of it: here the mean of all values."""

    class Padded(Fused):
        def forward(self, x):
            q, k, v = (it.unflatten(-1, (4, -1)).transpose(1, 2) for it in self.c_attn(x).chunk(3, dim=-1))
            hidden = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
            hidden[:, :2] = True
            mask = torch.zeros(hidden.shape).masked_fill(hidden, torch.finfo(torch.float32).min)
            if by_softmax:
                y = (q @ k.transpose(-1, -2) / math.sqrt(8) + mask).softmax(-1) @ v
            else:
                y = torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)
            return self.c_proj(y.transpose(1, 2).flatten(2))

    model, ids = Small(Padded, layers=1).eval(), tokens()
    plain = model(ids)
    at = {"layer": "*", "head": 1}
    for doing in (uniform_map(**at), remove_source(0, **at), remove_source(3, **at), scale_logits(2, **at)):
        with intervene(model, doing):
            found = model(ids)
        assert torch.equal(found[:, :2], plain[:, :2])
        assert torch.equal(found[:, 2:], plain[:, 2:]) == ("(0," in repr(doing))


@pytest.mark.parametrize("what", ["remove_source", "scale_logits", "uniform_map", "zero"])
def test_a_sink_keeps_its_own_score(what, monkeypatch):
    pytest.importorskip("transformers")
    from transformers.models.gpt_oss import modeling_gpt_oss
    from watched_models import FAMILIES

    model, inputs = FAMILIES["gpt_oss"]("eager")
    layer, head = model.get_submodule(LLAMA), 2
    original = modeling_gpt_oss.eager_attention_forward

    def by_hand(module, query, key, value, attention_mask, scaling, **kwargs):
        if module is not layer:
            return original(module, query, key, value, attention_mask, scaling, **kwargs)
        k, v = key.repeat_interleave(2, 1), value.repeat_interleave(2, 1)
        scores = (query @ k.mT * scaling + attention_mask).masked_fill(attention_mask < -1e4, float("-inf"))
        if what == "remove_source":
            scores[:, head, :, 3] = float("-inf")
        if what == "scale_logits":
            scores[:, head] *= 0.5
        sinks = module.sinks.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
        weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1].clone()
        if what == "uniform_map":
            seen = scores[:, head] > float("-inf")
            weights[:, head] = seen / seen.sum(-1, keepdim=True)
        heads = weights @ v
        if what == "zero":
            heads[:, head] = 0
        return heads.transpose(1, 2).contiguous(), weights

    doing = {
        "remove_source": remove_source(3, layer=LLAMA, head=head),
        "scale_logits": scale_logits(0.5, layer=LLAMA, head=head),
        "uniform_map": uniform_map(layer=LLAMA, head=head),
        "zero": ablate(layer=LLAMA, head=head),
    }[what]
    with torch.no_grad():
        with intervene(model, doing):
            found = model(**inputs).logits
            recorded = record_attention(model, **inputs)[LLAMA].weights(0, heads=[head])[0]
        plain = model(**inputs).logits
        monkeypatch.setattr(modeling_gpt_oss, "eager_attention_forward", by_hand)
        wanted = model(**inputs).logits
    real = inputs["attention_mask"].bool()
    torch.testing.assert_close(found[real], wanted[real], rtol=0, atol=1e-5)
    assert (found - plain).abs().max() > 1e-2
    assert (recorded.sum(-1) < 0.999).all() == (what != "uniform_map")
