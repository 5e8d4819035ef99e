"""Planted faults raise the alarm of their rule, layer and head; what is no fault raises none."""

import pytest
import torch
from torch import nn

import softlookup
from softlookup import watch
from softlookup.masks import causal

pytest.importorskip("transformers", reason="transformers is not installed")

from planted_faults import FAULTS, FOR_A_REASON, exploding, kept, looking_at, mask_given, padding, rule_of
from watched_models import FAMILIES, Fused, HandWritten, Small, implementations, tokens

T, LAYER, HEAD = 40, 1, 2
PATH = f"model.layers.{LAYER}.self_attn"


def tiny_llama(implementation="sdpa"):
    import transformers

    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=48,
        pad_token_id=0,
    )
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation=implementation)
    for layer in model.model.layers:  # larger scores than a fresh model has
        layer.self_attn.q_proj.weight.data.mul_(8)
        layer.self_attn.k_proj.weight.data.mul_(8)
    return model.eval()


def alarms_of(model, real, rule, calls=5):
    ids = tokens(batch=real.shape[0], length=real.shape[1])
    with torch.no_grad(), watch(model, rule=rule, queries=None) as trace:
        for _ in range(calls):
            model(input_ids=ids, attention_mask=real.long())
    assert "not observable" not in trace.coverage
    return trace.alarms


def said(alarms):
    return {(it.code, it.layer, it.head) for it in alarms}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_one_layer_is_named_with_its_rule_layer_and_head(name):
    """Padding is on the left: behind every real token, a causal rule hides it anyway."""
    _named(FAULTS[name], tiny_llama("sdpa"), padding(3, T, "left"))


@pytest.mark.parametrize("name", [it for it, fault in FAULTS.items() if fault.of_head])
def test_a_fault_of_a_head_is_named_in_eager_attention_too(name):
    _named(FAULTS[name], tiny_llama("eager"), padding(3, T, "right"))


def _named(fault, model, real):
    with fault.plant(model.model.layers[LAYER].self_attn, HEAD, real):
        alarms = alarms_of(model, real, rule_of(real))
    assert said(alarms[:1]) == {(fault.code, PATH, HEAD if fault.of_head else None)}
    assert {it.layer for it in alarms} == {PATH}
    assert alarms_of(model, real, rule_of(real)) == []  # and the model is as it was


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", FOR_A_REASON)
def test_a_head_that_is_sharp_for_a_reason_raises_no_alarm(name, side):
    """Where padding is on the left, only the first sample sees key 0, or none does."""
    model, real = tiny_llama(), padding(5, T, side)
    real[0, 0] = side == "right" or "or a sink" in name
    with looking_at(model.model.layers[LAYER].self_attn, HEAD, real, FOR_A_REASON[name]):
        ids = tokens(batch=5, length=T)
        with torch.no_grad(), watch(model, rule=rule_of(real), queries=None) as trace:
            for _ in range(6):
                model(input_ids=ids, attention_mask=real.long())
    sharp = trace.layers[PATH].entropy_nats[0]
    assert sharp[HEAD] < 1e-3  # it was planted,
    assert sharp[HEAD - 1] > 0.1  # in this head
    assert trace.alarms == []


def test_an_empty_row_that_gives_nan_is_named_once_where_it_begins():
    model, real = tiny_llama("eager"), padding(2, T, "right")
    hidden = torch.zeros(2, 1, T, T).masked_fill(~torch.ones(T, T, dtype=torch.bool).tril(), -torch.inf)
    hidden[1, :, 5:8] = -torch.inf
    with mask_given(model.model.layers[LAYER].self_attn, lambda T: hidden):
        alarms = alarms_of(model, real, None)
    assert said(alarms) == {("SL401", PATH, None)}
    assert alarms[0].value == 3
    assert "3 of the measured queries see no key" in alarms[0].words


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("part", ["q_proj", "k_proj"])
def test_nan_in_weights_is_named_at_the_first_layer_that_has_it(part, implementation):
    model, real = tiny_llama(implementation), padding(2, T, "right")
    getattr(model.model.layers[LAYER].self_attn, part).weight.data[3, 3] = torch.nan
    alarms = alarms_of(model, real, causal())
    assert said(alarms) == {("SL000", PATH, None)}
    assert alarms[0].step == 0
    if implementation == "sdpa":
        assert f"it came in with the {'queries' if part == 'q_proj' else 'keys'}" in alarms[0].words


def test_nan_that_begins_behind_a_layer_is_named_at_the_next_one():
    model, real = tiny_llama(), padding(2, T, "right")
    model.model.layers[0].mlp.down_proj.weight.data[3, 3] = torch.nan
    assert said(alarms_of(model, real, causal())) == {("SL000", PATH, None)}


def test_scores_that_grow_in_training_are_named_before_they_pass_the_limit():
    """The largest score of a head grows by the same amount in every step, and passes 100 at a known one."""
    model, ids, per_step = tiny_llama(), tokens(length=T), 2.0
    attention = model.model.layers[LAYER].self_attn
    rows = slice(HEAD * attention.head_dim, (HEAD + 1) * attention.head_dim)
    with torch.no_grad(), watch(model, queries=None) as trace:
        model(ids)
    start = float(trace.layers[PATH].moments["max_score"].high[0, HEAD])
    trainings = int((100 - start) / per_step)
    with kept(attention.q_proj.weight), torch.no_grad(), watch(model, rule=causal(), queries=None) as trace:
        before = attention.q_proj.weight[rows].clone()
        for training in range(trainings):
            attention.q_proj.weight[rows] = before * (1 + per_step * training / start)
            model.train()(ids)
            model.eval()(ids[:, :5])  # a step of its own, and no point of the line: another text
    assert said(trace.alarms) == {("SL903", PATH, HEAD)}
    (alarm,) = trace.alarms
    assert alarm.step < 2 * trainings - 10
    assert 50 < alarm.value < 100
    left = int(alarm.words.split("in about ")[1].split()[0])
    assert abs(alarm.step + left - 2 * trainings) <= 3


@pytest.mark.parametrize("attention", [HandWritten, Fused])
def test_a_training_that_goes_well_raises_no_alarm(attention):
    torch.manual_seed(0)
    model = Small(attention)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    with watch(model, rule=causal()) as trace:
        for step in range(200):
            words = torch.randint(50, (8, 8), generator=torch.Generator().manual_seed(step))
            ids = torch.cat([words, words], dim=1)  # the second half can be told from the first
            logits = model(ids)[:, 8:-1]
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 9:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss))
    assert trace.steps == 200
    assert losses[-1] < 0.9 * losses[0]
    assert trace.alarms == []


@pytest.mark.parametrize("family", FAMILIES)
def test_an_untrained_model_raises_no_alarm(family):
    """Padded, with cross-attention, windows, sinks or biases, in eval and training."""
    causal_layers = ["*decoder.*SelfAttention", "*decoder.*self_attn"]
    two_ways = family in ("bert", "vit", "t5", "bart", "whisper")
    rule = dict.fromkeys(causal_layers, causal()) if two_ways else causal()
    for implementation in sorted({"eager", "sdpa"} & set(implementations(family))):
        model, inputs = FAMILIES[family](implementation)
        with torch.no_grad(), watch(model, rule=rule, queries=None) as trace:
            for step in range(6):
                model.train(step % 2 == 1)(**inputs)
        assert trace.alarms == [], implementation
        assert "not observable" not in trace.coverage


def test_cross_attention_is_not_held_against_a_rule_for_self_attention():
    model = nn.TransformerDecoderLayer(32, 4, 48, batch_first=True)
    x, memory = torch.randn(2, 12, 32), torch.randn(2, 20, 32)
    mask = nn.Transformer.generate_square_subsequent_mask(12)
    with watch(model, rule=causal(), queries=None) as trace:
        for _ in range(5):
            model(x, memory, tgt_mask=mask, tgt_is_causal=True)
    assert [it.call.kind for it in trace.records][:2] == ["self", "cross"]
    assert trace.alarms == []


def test_a_memory_that_is_the_layers_own_sequence_is_held_against_the_rule():
    """Our layers call keys' source a memory, whether it is another sequence or not."""
    layer, x = softlookup.MultiHeadAttention(16, 2), torch.randn(1, 7, 16)
    with watch(layer, rule=causal()) as trace:
        layer(x)
    assert [(it.code, it.layer) for it in trace.alarms] == [("SL901", "")]
    assert [it.call.kind for it in trace.records] == ["self"]

    with watch(layer, rule=causal()) as trace:
        layer(x, causal())
    assert trace.alarms == []

    cross = softlookup.CrossAttention(16, 2)
    with watch(cross, rule=causal()) as trace:
        cross(x, torch.randn(1, 7, 16))
    assert [it.call.kind for it in trace.records] == ["cross"]
    assert trace.alarms == []


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("family", ["llama", "mistral", "gemma2"])
def test_cached_decoding_of_a_padded_batch_raises_no_alarm(family, cache):
    model, _ = FAMILIES[family]("eager" if family == "gemma2" else "sdpa")
    ids, real = tokens(batch=2, length=14), padding(2, 14, "left")
    with torch.no_grad(), watch(model, rule=causal(), queries=None) as trace:
        model.generate(
            ids,
            attention_mask=real.long(),
            max_new_tokens=8,
            min_new_tokens=8,
            do_sample=False,
            cache_implementation=cache if cache == "static" else None,
            disable_compile=True,
        )
    assert "cached" in {it.call.kind for it in trace.records}
    assert trace.alarms == []
    not_asked = [it.rule_not_asked for it in trace.records if it.call.kind == "cached" and it.rule_not_asked]
    has_room = cache == "static" and family != "mistral"  # the cache of a window is full at once
    assert bool(not_asked) == has_room, "room that is left in a cache hides where queries stand"


def test_a_head_that_explodes_raises_its_alarm_once():
    model, real = tiny_llama(), padding(2, T, "right")
    with exploding(model.model.layers[LAYER].self_attn, HEAD, real):
        alarms = alarms_of(model, real, None, calls=20)
    assert len([it for it in alarms if it.code == "SL903"]) == 1


class SinkAttention(nn.Module):
    """Written by hand: a score beside those of the keys, of each query, which takes weight and is no key."""

    def __init__(self):
        super().__init__()
        self.qkv, self.sink = nn.Linear(16, 48), nn.Linear(16, 2)

    def forward(self, x):
        q, k, v = (it.unflatten(-1, (2, 8)).transpose(1, 2) for it in self.qkv(x).chunk(3, dim=-1))
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        attn_weights = (q @ k.transpose(-2, -1) / 8**0.5).masked_fill(hidden, float("-inf"))
        sinks = self.sink(x).transpose(1, 2)[..., None]
        self.weights = torch.cat([attn_weights, sinks], dim=-1).softmax(dim=-1)[..., :-1]
        return (self.weights @ v).transpose(1, 2).flatten(2)


class Streams(nn.Module):
    """Mixes four streams by a softmax, once for each token: [B, T, 4, 4], which is no attention."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x):
        mixes = self.mix(x).unflatten(-1, (4, 4)).softmax(dim=-1)
        return (mixes @ x.unflatten(-1, (4, 4))).flatten(-2)


def test_a_sink_of_each_query_is_no_key_that_the_rule_hides():
    torch.manual_seed(0)
    layer = SinkAttention()
    with torch.no_grad(), watch(layer, rule=causal(), queries=None) as trace:
        layer(torch.randn(2, 9, 16))
    assert trace.alarms == []
    record = trace.records[0]
    assert (record.call.q_len, record.call.k_len, record.call.kind) == (9, 9, "self")
    first = layer.weights[..., 0].mean(dim=(0, 2))
    torch.testing.assert_close(record.statistics.first_mass[0].float(), first, rtol=1e-5, atol=1e-6)


def test_a_softmax_outside_the_layers_called_attention_need_not_keep_a_rule_for_attention():
    torch.manual_seed(0)
    model = nn.Sequential(SinkAttention(), Streams())
    for rule, codes in ((causal(), []), ({"1": causal()}, ["SL901"])):
        with torch.no_grad(), watch(model, rule=rule) as trace:
            model(torch.randn(2, 9, 16))
        assert [it.code for it in trace.alarms] == codes
    assert trace.records[1].call.layer == "1"


class NanAttention(nn.Module):
    """Written by hand: a query without keys gets NaN from the softmax, over which 0 is written, or not."""

    def __init__(self, hidden, *, mends):
        super().__init__()
        self.qkv, self.hidden, self.mends = nn.Linear(16, 48), hidden, mends

    def forward(self, x):
        q, k, v = (it.unflatten(-1, (2, 8)).transpose(1, 2) for it in self.qkv(x).chunk(3, dim=-1))
        weights = (q @ k.transpose(-2, -1)).masked_fill(self.hidden, float("-inf")).softmax(dim=-1)
        return ((weights.nan_to_num() if self.mends else weights) @ v).transpose(1, 2).flatten(2)


@pytest.mark.parametrize(
    ("mends", "empty_in", "layer"),
    [
        (True, (0, 1, 2), None),
        (False, (0, 1, 2), "0"),
        (False, (1,), "1"),
        (False, (2,), "2"),  # nothing comes after it
    ],
)
def test_nan_of_a_softmax_is_an_alarm_where_it_spreads_unless_it_is_written_over(mends, empty_in, layer):
    torch.manual_seed(0)
    some, none = torch.zeros(7, 7, dtype=torch.bool), torch.zeros(7, 7, dtype=torch.bool)
    some[4] = True  # query 4 sees no key
    model = nn.Sequential(*(NanAttention(some if n in empty_in else none, mends=mends) for n in range(3)))
    with torch.no_grad(), watch(model, queries=None) as trace:
        for _ in range(2):
            output = model(torch.randn(2, 7, 16))
    assert bool(output.isnan().any()) != mends
    assert said(trace.alarms) == (set() if mends else {("SL401", layer, None)})
    assert all(it.step == 0 for it in trace.alarms)
