"""Requests that cannot be carried out are refused, with the reason and what to write instead."""

import pytest
import torch
from reference_attention import first_tensor
from torch import nn
from torch.nn import functional
from watched_models import Fused, HandWritten, Small, tokens

from softlookup import MultiHeadAttention, SoftlookupError
from softlookup.experiments import (
    ablate,
    change_token,
    freeze_map,
    freeze_mask,
    intervene,
    permuted_map,
    previous_token_map,
    remove_source,
    scale_logits,
    uniform_map,
)
from softlookup.recording import record_attention

try:
    import transformers  # noqa: F401
    from watched_models import FAMILIES
except ImportError:
    FAMILIES = {}


def needs(family, implementation="sdpa"):
    if family not in FAMILIES:
        pytest.skip("transformers is not installed")
    return FAMILIES[family](implementation)


def refused(words, model, *interventions, run=None):
    """Assert that the block is refused, and return the whole message."""
    with pytest.raises(SoftlookupError) as raised, intervene(model, *interventions):
        (run or (lambda: None))()
    message = str(raised.value)
    for it in [words] if isinstance(words, str) else words:
        assert it in message, message
    return message


WRONG_PLACES = [
    ("llama", "model.layers.0.self_attn.o_proj", "after the output projection the heads are mixed"),
    ("llama", "model.layers.0.self_attn.q_proj", "a projection before attention is not what a head finds"),
    ("llama", "model.layers.0", "is no layer of attention, it holds one"),
    ("llama", "model", "is no layer of attention, it holds 2 of them"),
    ("llama", "model.layers.0.mlp.down_proj", "it is no layer of attention"),
    ("llama", "model.layers.7.self_attn", "no module of the model has such a path"),
    ("llama", "model.layers.*.o_proj", "after the output projection"),
    ("gpt2", "transformer.h.1.attn.c_proj", "after the output projection the heads are mixed"),
    ("gpt2", "transformer.h.1", "layer='transformer.h.1.attn'"),
    ("bert", "encoder.layer.0.attention.output.dense", "layer='encoder.layer.0.attention.self'"),
    ("bert", "encoder.layer.0.attention", "layer='encoder.layer.0.attention.self'"),
    ("t5", "encoder.block.0.layer.0.SelfAttention.o", "layer='encoder.block.0.layer.0.SelfAttention'"),
]


@pytest.mark.parametrize(("family", "path", "words"), WRONG_PLACES, ids=[it[1] for it in WRONG_PLACES])
def test_a_wrong_place_is_refused_with_the_reason(family, path, words):
    model, _ = needs(family)
    message = refused(words, model, ablate(layer=path, head=0))
    assert message.startswith(f"ablate(layer='{path}', head=0): ")


def test_the_layer_of_attention_is_named_for_a_projection_behind_it():
    model, _ = needs("llama")
    message = refused("try:", model, ablate(layer="model.layers.1.self_attn.o_proj"))
    assert message.endswith("layer='model.layers.1.self_attn'")


@pytest.mark.parametrize("kind", [HandWritten, Fused])
def test_what_a_call_does_not_have_is_refused(kind):
    model, ids = Small(kind).eval(), tokens()

    def run():
        model(ids)

    refused(["blocks.0 has no head 4", "0 to 3", "H=4"], model, ablate(layer="blocks.0", head=4), run=run)
    refused("blocks.1 has no query 9", model, uniform_map(layer="blocks.1", query=9), run=run)
    refused("blocks.0 has no key 9", model, remove_source(9, layer="blocks.0"), run=run)
    refused("has no key -10", model, remove_source(-10, layer="blocks.0"), run=run)
    refused("blocks.0 has no sample 2", model, scale_logits(2, layer="*", sample=2), run=run)


def test_what_met_no_call_is_refused_at_the_end():
    model, ids = Small(Fused).eval(), tokens()
    words = ["met no call of attention, so it changed nothing", "no call of attention at all"]
    refused(words, model, ablate(layer="blocks.0", head=0))
    refused(["calls of blocks.0, blocks.1", "'norms.0'"], model, Silent("norms.0"), run=lambda: model(ids))
    refused("'norms.1'", model, Silent(["blocks.0", "norms.1"]), run=lambda: model(ids))


class Silent:
    """Scores as they are, at a place that nobody checks beforehand."""

    def __init__(self, layer):
        self.layer = layer

    def score(self, at, scores):
        return scores

    def __repr__(self):
        return "Silent()"


@pytest.fixture(autouse=True)
def _places_of_silent_are_not_checked(monkeypatch):
    from softlookup.experiments import intervening

    check = intervening.check_place
    monkeypatch.setattr(
        intervening, "check_place", lambda words, *rest: None if words == "Silent()" else check(words, *rest)
    )


def test_what_is_no_intervention_is_refused():
    model = Small(Fused)
    refused("this is no intervention", model, [ablate(layer="blocks.0", head=0)])
    refused("this is no intervention", model, "ablate")
    refused("this is no intervention", model, type(ablate(layer="blocks.0")))
    with pytest.raises(SoftlookupError, match="there is no model"), intervene(model.parameters()):
        pass


def test_a_step_that_returns_another_shape_is_refused():
    class Sums:
        layer = "blocks.0"

        def normalize(self, at, weights):
            return weights.sum(-1)

    model = Small(Fused)
    words = ["its `normalize` returned something else", "[2, 4, 9, 9]", "[2, 4, 9]"]
    refused(words, model, Sums(), run=lambda: model(tokens()))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ablate(layer="*", head=True), "`head` cannot be used"),
        (lambda: ablate(layer="*", head=[]), "`head` cannot be used"),
        (lambda: ablate(layer="*", head=[1, 1]), "several different ones"),
        (lambda: ablate(layer="*", query=1.5), "`query` cannot be used"),
        (lambda: ablate(layer=3), "`layer` cannot be used"),
        (lambda: ablate(layer="*", how="half"), "how"),
        (lambda: ablate(layer="*", how="mean"), "needs to know what the head found elsewhere"),
        (lambda: ablate(layer="*", reference=tokens()), "needs no reference"),
        (lambda: ablate(layer="*", how="mean", reference=tokens(), from_sample=1), "from_sample picks"),
        (lambda: remove_source(None), "which position is to be removed?"),
        (lambda: remove_source("4"), "`position` cannot be used"),
        (lambda: scale_logits(float("nan"), layer="*"), "a finite number"),
        (lambda: scale_logits("2", layer="*"), "a finite number"),
        (lambda: permuted_map(-1, layer="*"), "seed"),
        (lambda: freeze_map({}, layer="*"), "there is no recording to take this from"),
        (lambda: freeze_mask(None), "there is no recording to take this from"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_runs(make, words):
    with pytest.raises(SoftlookupError) as raised:
        make()
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("given", "more", "words"),
    [
        ({"position": 9, "token": 3}, {}, "there is no position 9"),
        ({"position": 0, "token": 3}, {"sample": 2}, "there is no sample 2"),
        ({"position": 0, "token": -1}, {}, "an id of at least 0"),
        ({"position": 0, "token": 1.5}, {}, "an id of at least 0"),
        ({"position": 0, "token": torch.ones(3)}, {}, "an id of at least 0"),
        ({"position": True, "token": 1}, {}, "there is no position True"),
    ],
)
def test_a_token_that_cannot_be_changed_is_refused(given, more, words):
    with pytest.raises(SoftlookupError) as raised:
        change_token(tokens(), **given, **more)
    assert words in str(raised.value)


def test_a_token_that_is_there_already_or_is_padding_is_refused():
    ids = tokens()
    with pytest.raises(SoftlookupError, match="holds this token already"):
        change_token(ids, 2, int(ids[0, 2]))
    mask = torch.ones_like(ids)
    mask[0, 8] = 0
    with pytest.raises(SoftlookupError, match="is padding"):
        change_token({"input_ids": ids, "attention_mask": mask}, 8, 1)
    with pytest.raises(SoftlookupError, match="which argument holds the tokens"):
        change_token({"x": ids}, 8, 1)
    assert change_token({"x": ids}, 8, 1, argument="x")["x"][0, 8] == 1
    with pytest.raises(SoftlookupError, match="cannot be read"):
        change_token("text", 0, 1)
    with pytest.raises(SoftlookupError, match="these are no tokens"):
        change_token(torch.zeros(2, 3, 4, dtype=torch.long), 0, 1)


def test_a_recording_that_does_not_fit_is_refused():
    model, ids = Small(Fused).eval(), tokens()
    short, other = record_attention(model, ids[:, :5]), record_attention(Small(Fused, layers=1), ids)
    three = record_attention(model, torch.cat([ids, ids[:1]]))

    def run():
        model(ids)

    words = ["the recording of blocks.0 has other sizes", "T_q=9, T_k=9", "T_q=5, T_k=5"]
    refused(words, model, freeze_map(short, layer="*"), run=run)
    refused(words, model, freeze_mask(short, layer="*"), run=run)
    refused("has no layer 'blocks.1'", model, freeze_map(other, layer="blocks.1"), run=run)
    refused("another number of samples", model, freeze_map(three, layer="*"), run=run)
    refused("other sizes", model, ablate(layer="*", how="resample", reference=short), run=run)
    doing = ablate(layer="*", how="resample", reference=three, from_sample=3)
    refused("the recording has no such sample", model, doing, run=run)
    with intervene(model, ablate(layer="*", how="mean", reference=[short, three])):  # a mean fits any length
        run()
    with intervene(
        model, freeze_map(record_attention(model, ids[:1]), layer="*")
    ):  # one sample goes with all
        run()


def test_keys_whose_scores_are_gone_cannot_be_shown():
    """A mask that shows more: what a hand-written softmax is given of hidden keys is -inf."""
    ids = tokens()

    class Uncausal(Fused):
        def forward(self, x):
            q, k, v = (it.unflatten(-1, (4, -1)).transpose(1, 2) for it in self.c_attn(x).chunk(3, -1))
            return self.c_proj(functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))

    all_seen = record_attention(Small(Uncausal), ids)
    model = Small(HandWritten).eval()
    doing = freeze_mask(all_seen, layer="blocks.0")
    refused("their scores are gone", model, doing, run=lambda: model(ids))
    fused = Small(Fused).eval()
    with intervene(fused, freeze_mask(all_seen, layer="*")):
        found = fused(ids)
    uncausal = Small(Uncausal).eval()
    uncausal.load_state_dict(fused.state_dict())
    torch.testing.assert_close(found, uncausal(ids), rtol=0, atol=1e-5)


def test_a_previous_token_where_queries_have_no_place_is_refused():
    layer = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x, memory = torch.randn(1, 5, 32), torch.randn(1, 7, 32)
    doing = previous_token_map(layer="")
    refused("queries have no place among the keys", layer, doing, run=lambda: layer(x, memory, memory))
    model, inputs = needs("llama")
    from transformers import StaticCache

    def with_room():
        cache = StaticCache(config=model.config, max_cache_len=20)
        with torch.no_grad():
            model(inputs["input_ids"][:, :4], past_key_values=cache)
            model(inputs["input_ids"][:, 4:5], past_key_values=cache)

    refused("where queries stand among the keys", model, previous_token_map(layer="*"), run=with_room)


def test_dropout_inside_one_call_is_refused_and_an_ablation_is_not():
    class Drops(Fused):
        def forward(self, x):
            q, k, v = (it.unflatten(-1, (4, -1)).transpose(1, 2) for it in self.c_attn(x).chunk(3, -1))
            y = functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1 if self.training else 0.0)
            return self.c_proj(y.transpose(1, 2).flatten(2))

    model = Small(Drops).train()
    words = ["drops weights at random inside one call", "dropout 0.1", "model.eval()"]
    refused(words, model, remove_source(0, layer="*"), run=lambda: model(tokens()))
    with intervene(model, ablate(layer="*", head=0)):
        model(tokens())
    with intervene(model.eval(), remove_source(0, layer="*")):
        model(tokens())


def test_compiled_models_are_refused():
    model = Small(Fused).eval()
    compiled = torch.compile(model)
    refused("compiled code computes attention as a whole", compiled, ablate(layer="blocks.0"))
    with torch.compiler.set_stance("force_eager"), intervene(compiled, ablate(layer="blocks.0", head=0)):
        found = compiled(tokens())
    with intervene(model, ablate(layer="blocks.0", head=0)):
        assert torch.equal(found, model(tokens()))


@pytest.mark.long
def test_compiled_code_that_runs_a_model_is_refused_when_it_runs():
    torch.compiler.reset()
    model, ids = Small(Fused).eval(), tokens()
    compiled = torch.compile(lambda x: model(x) + 1, backend="aot_eager")  # the model itself looks as it was
    with torch.no_grad():
        compiled(ids)
        refused("runs as compiled code", model, ablate(layer="blocks.0"), run=lambda: compiled(ids))
        compiled(ids)


def test_a_transform_of_functions_is_refused():
    model, ids = Small(Fused).eval(), tokens()
    doing = ablate(layer="blocks.0", head=0)
    refused("inside vmap", model, doing, run=lambda: torch.vmap(model)(ids[None]))


def test_a_fast_path_that_was_switched_on_again_is_refused():
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True).eval()

    def run():
        torch.backends.mha.set_fastpath_enabled(True)
        with torch.no_grad():
            layer(torch.randn(1, 5, 32))

    refused("a fast path from tokens to tokens", layer, ablate(layer="self_attn", head=0), run=run)
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_recording_of_a_fast_path_does_not_show_what_heads_find():
    layer, x = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True).eval(), torch.randn(1, 5, 32)
    fast = record_attention(layer, x)
    assert fast.calls[0].call.way == "encoder_layer_fast"
    doing = ablate(layer="self_attn", how="mean", reference=fast)
    refused("does not show what heads of self_attn found", layer, doing, run=lambda: layer(x))
    with intervene(layer):
        plain = record_attention(layer, x)
    torch.testing.assert_close(plain["self_attn"].weights(), fast["self_attn"].weights())
    with intervene(layer, ablate(layer="self_attn", how="mean", reference=plain)):
        layer(x)


def test_what_cannot_be_recorded_is_refused():
    with pytest.raises(SoftlookupError, match="there is no model to record"):
        record_attention("model")
    with pytest.raises(SoftlookupError, match="no call of attention was seen"):
        record_attention(nn.Linear(2, 2), torch.zeros(1, 2))
    model = MultiHeadAttention(8, num_heads=2)
    recording = record_attention(model, torch.randn(1, 3, 8))
    for make, words in (
        (lambda: recording["attn"], "has no layer 'attn'"),
        (lambda: recording.call("", 1), "was not called so often"),
        (lambda: recording[""].weights(1), "there is no such one among the samples"),
        (lambda: recording[""].weights(heads=[2]), "there is no such one among the heads"),
        (lambda: recording[""].weights(queries=[3]), "there is no such one among the queries"),
        (lambda: recording[""].pooled(0, 3), "query_buckets"),
    ):
        with pytest.raises(SoftlookupError) as raised:
            make()
        assert words in str(raised.value)


def test_words_say_what_is_done():
    model, ids = Small(Fused).eval(), tokens()
    recording = record_attention(model, ids)
    said = [
        remove_source([1, 2], layer="a", head=0),
        uniform_map(layer="a", query=[1]),
        freeze_map(recording, layer="a"),
        freeze_mask(recording, layer="a", sample=1),
        ablate(layer="a", how="resample", reference=recording, from_sample=1),
    ]
    assert [repr(it) for it in said] == [
        "remove_source([1, 2], layer='a', head=0)",
        "uniform_map(layer='a', query=[1])",
        "freeze_map(recording, layer='a')",
        "freeze_mask(recording, layer='a', sample=1)",
        "ablate(layer='a', how='resample', reference=reference, from_sample=1)",
    ]
    assert first_tensor(recording.output).shape == (2, 9, 50)
