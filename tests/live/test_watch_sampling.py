"""The numbers of sampled queries are those that observe says of the same queries."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup import watch
from softlookup.live.measuring_calls import Sampling, measure
from softlookup.live.problem import from_products, from_scores
from softlookup.masks import alibi, causal, documents, padding, sliding_window
from softlookup.statistics import observe
from softlookup.statistics.seen_keys import SeenKeys

MASKS = {
    "none": lambda: None,
    "causal": causal,
    "window and padding": lambda: causal() & sliding_window(3) & padding([4, 7]),
    "documents": lambda: causal() & documents(torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)),
    "alibi": lambda: alibi(4),
    "tensor": lambda: torch.ones(7, 7).tril().bool(),
    "additive": lambda: torch.zeros(7, 7).masked_fill(torch.ones(7, 7).triu(1).bool(), float("-inf")),
}
NAMES = ("lse", "entropy_nats", "distance_tokens", "spread_tokens", "self_mass", "first_mass", "max_score")


def problem(seed, scale=1.0, length=7, kv_heads=2):
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(2, 4, length, 8, generator=generator) * scale
    return q, torch.randn(2, kv_heads, length, 8, generator=generator)


@given(
    seed=st.integers(0, 1000), name=st.sampled_from(sorted(MASKS)), scale=st.sampled_from([0.1, 1.0, 20.0])
)
@settings(max_examples=60, deadline=None)
def test_all_queries_have_the_numbers_of_observe(seed, name, scale):
    q, k = problem(seed, scale)
    mask = MASKS[name]()
    _, wanted = observe(
        q, k, k, mask, rule=sliding_window(2), exact_max=True, enable_gqa=True, empty_rows="zero"
    )
    rule = SeenKeys.of(sliding_window(2), 7, 7, device=q.device)
    found, queries = measure(from_products(q, k, mask), Sampling(), rule)
    assert queries == 14
    whole = wanted.over_batch()
    for part in (*NAMES, "forbidden_mass"):
        ours, theirs = found.moments[part], whole.moments[part]
        for one, other in ((ours.mean, theirs.mean), (ours.high, theirs.high), (ours.low, theirs.low)):
            close = 1e-3 if part == "spread_tokens" else 1e-5 * max(1.0, scale)  # near 0 a root of rounding
            torch.testing.assert_close(one, other, rtol=1e-4, atol=close)
    for count in ("queries", "empty_rows", "visible_pairs", "possible_pairs", "nan_count", "inf_count"):
        assert torch.equal(found.counts[count], whole.counts[count]), count


@pytest.mark.parametrize("length", [1, 7, 64, 65, 200])
@pytest.mark.parametrize("name", ["none", "causal"])
def test_some_queries_are_those_of_all_rows(name, length):
    q, k = problem(3, length=length)
    mask = MASKS[name]()
    sampling = Sampling(queries=10, turn=2)
    found, queries = measure(from_products(q, k, mask), sampling)
    chosen = sampling.rows(2, length)
    assert queries == 2 * len(chosen) <= max(10, 2)
    _, whole = observe(q, k, k, mask, exact_max=True, enable_gqa=True, per_query=True)
    for part in NAMES:
        values = getattr(whole.rows, part)[:, :, chosen]
        expected = values.amax((0, 2)) if part == "max_score" else values.double().mean((0, 2))
        ours = found.max_score[0] if part == "max_score" else found.moments[part].mean[0]
        torch.testing.assert_close(ours.double(), expected.double(), rtol=1e-4, atol=1e-4)


def test_other_steps_take_other_queries_until_all_are_met():
    met = {int(it) for turn in range(40) for it in Sampling(queries=10, turn=turn).rows(2, 50)}
    assert met == set(range(50))


def test_scores_by_hand_say_the_same_and_stay_as_they_are():
    q, k = problem(5, kv_heads=4)
    scores = (q @ k.transpose(-2, -1) / 8**0.5).masked_fill(torch.ones(7, 7).triu(1).bool(), -1e9)
    before = scores.clone()
    by_hand, _ = measure(from_scores(scores, scores.softmax(-1)), Sampling())
    assert torch.equal(scores, before)
    by_products, _ = measure(from_products(q, k, causal()), Sampling())
    for part in NAMES:
        torch.testing.assert_close(
            by_hand.moments[part].mean, by_products.moments[part].mean, rtol=1e-5, atol=1e-5
        )
    assert by_hand.masked_fraction.tolist() == by_products.masked_fraction.tolist()


def test_weights_that_do_not_add_up_show():
    scores = torch.zeros(1, 2, 4, 4)
    weights = scores.softmax(-1) * torch.tensor([1.0, 0.9])[:, None, None]
    found, _ = measure(from_scores(scores, weights), Sampling())
    assert found.row_sum_error[0].tolist() == pytest.approx([0.0, 0.1], abs=1e-6)


def test_nan_and_inf_are_counted_where_they_are_visible():
    scores = torch.zeros(1, 1, 3, 3)
    scores[0, 0, 1, 0], scores[0, 0, 2, 1] = float("nan"), float("inf")
    found, _ = measure(from_scores(scores), Sampling())
    assert (int(found.nan_count), int(found.inf_count)) == (1, 1)


def test_a_sink_takes_weight_and_is_no_key():
    scores, sink = torch.zeros(1, 2, 3, 4), torch.tensor([0.0, 100.0])
    sinks = sink.view(1, 2, 1, 1).expand(1, 2, 3, 1)
    found, _ = measure(from_scores(scores, sinks=sinks), Sampling())
    assert found.first_mass[0].tolist() == pytest.approx([1 / 5, 0.0], abs=1e-6)
    assert found.max_score[0].tolist() == [0.0, 0.0]
    assert found.possible_pairs[0].tolist() == [12, 12]


def test_nan_that_comes_in_with_values_is_not_blamed_on_queries_without_keys():
    """Left padding: the first queries see nothing, and for another reason the values are NaN."""
    x = torch.randn(1, 1, 5, 8)
    seen = torch.ones(5, 5).tril().bool() & torch.tensor([False, True, True, True, True])

    class Layer(torch.nn.Module):
        def forward(self, v):
            return torch.nn.functional.scaled_dot_product_attention(x, x, v, attn_mask=seen)

    layer = Layer()
    with watch(layer) as trace:
        layer(torch.full_like(x, float("nan")))
    (alarm,) = trace.alarms
    assert alarm.code == "SL000"
    assert "came in with the values" in alarm.words


LAYERS = {"post norm": {}, "norm first": {"norm_first": True}}


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "slow path"])
@pytest.mark.parametrize("name", LAYERS)
def test_torch_encoders_have_the_numbers_of_the_weights_that_they_return(name, fast):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 48, 0.0, batch_first=True, **LAYERS[name])
    model = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train(not fast)
    x, hidden = torch.randn(2, 9, 32), torch.zeros(2, 9, dtype=torch.bool)
    hidden[1, 6:] = True
    with watch(model, queries=None) as trace, torch.no_grad():
        model(x, src_key_padding_mask=hidden)
    ways = {it.call.way for it in trace.records}
    assert ways == ({"encoder_layer_fast"} if fast else {"sdpa"})
    for record, layer in zip(trace.records, model.layers, strict=True):
        into = layer.norm1(x) if layer.norm_first else x
        given = {"key_padding_mask": hidden, "need_weights": True, "average_attn_weights": False}
        with torch.no_grad():
            _, weights = layer.self_attn(into, into, into, **given)
            x = layer(x, src_key_padding_mask=hidden)
        entropy = torch.special.entr(weights.double()).sum(-1).mean((0, 2))
        torch.testing.assert_close(
            record.statistics.moments["entropy_nats"].mean[0], entropy, rtol=1e-5, atol=1e-5
        )
        first = weights[..., 0].double().mean((0, 2))
        torch.testing.assert_close(record.statistics.first_mass[0], first, rtol=1e-5, atol=1e-5)


def test_torch_decoders_tell_self_from_cross_attention():
    torch.manual_seed(0)
    model = torch.nn.TransformerDecoder(torch.nn.TransformerDecoderLayer(32, 4, 48, 0.0, batch_first=True), 1)
    x, memory = torch.randn(2, 5, 32), torch.randn(2, 7, 32)
    later = torch.ones(5, 5).triu(1).bool()
    with watch(model, queries=None, rule=causal()) as trace, torch.no_grad():
        model(x, memory, tgt_mask=later)
    own, cross = trace.records
    assert (own.call.kind, own.call.q_len, own.call.k_len) == ("self", 5, 5)
    assert (cross.call.kind, cross.call.q_len, cross.call.k_len) == ("cross", 5, 7)
    assert trace.alarms == []
    layer = model.layers[0]
    with torch.no_grad():
        into = layer.norm1(x + layer.self_attn(x, x, x, attn_mask=later)[0])
        _, weights = layer.multihead_attn(into, memory, memory, average_attn_weights=False)
    entropy = torch.special.entr(weights.double()).sum(-1).mean((0, 2))
    torch.testing.assert_close(
        cross.statistics.moments["entropy_nats"].mean[0], entropy, rtol=1e-5, atol=1e-5
    )
