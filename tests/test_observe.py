"""observe against weights written out in float64: every number, for every kind of mask, dtype and input."""

import math
import subprocess
import sys
import textwrap

import pytest
import torch

from softlookup import Mask, SoftlookupError
from softlookup.fused import attend
from softlookup.masks import (
    alibi,
    causal,
    chunked,
    dilated,
    documents,
    padding,
    prefix_lm,
    sliding_window,
)
from softlookup.statistics import observe, observe_shard, weights_of
from softlookup.statistics.augmented import statistics_by_values
from softlookup.statistics.measuring import Measure
from softlookup.statistics.reading import read_scores, read_seen
from softlookup.statistics.streaming import statistics_of_scores
from softlookup.statistics.wanted import Grid, Wanted

B, H, H_KV, T_Q, T_K, D = 2, 4, 2, 300, 333, 16

MASKS = {
    "none": None,
    "causal": causal(),
    "causal to the last key": causal("bottom-right"),
    "window": sliding_window(9),
    "window on each side": sliding_window(70, "each side", corner="bottom-right"),
    "padding": padding([200, 333]),
    "causal and padding": causal() & padding([40, 333]),
    "left padding leaves empty rows": causal() & padding([40, 333], "left"),
    "documents": documents(torch.arange(T_K).expand(B, -1) // 60) & causal(),
    "documents out of order": documents(torch.tensor([[4] * 100 + [9] * 133 + [4] * 100] * B)),
    "prefix": prefix_lm([5, 120]),
    "chunks": chunked(64),
    "sink and window": (sliding_window(20) | padding(4)) & causal(),
    "dilated": dilated(5, step=7),
    "opposite": ~causal(),
    "alibi": alibi(H) & causal(),
    "alibi alone": alibi(H),
    "dense": torch.rand(T_Q, T_K, generator=torch.Generator().manual_seed(0)) > 0.5,
    "dense for each head": torch.rand(B, H, T_Q, T_K, generator=torch.Generator().manual_seed(1)) > 0.9,
    "dense keys": torch.rand(B, 1, 1, T_K, generator=torch.Generator().manual_seed(2)) > 0.5,
    "floats": torch.randn(1, H, T_Q, T_K, generator=torch.Generator().manual_seed(3)),
    "floats that hide": torch.zeros(T_Q, T_K).masked_fill(
        torch.rand(T_Q, T_K, generator=torch.Generator().manual_seed(4)) > 0.5, -math.inf
    ),
    "floats that nearly hide": torch.zeros(B, 1, T_Q, T_K).masked_fill(
        torch.rand(B, 1, T_Q, T_K, generator=torch.Generator().manual_seed(5)) > 0.5, -1e9
    ),
}


def qkv(heads=H, kv_heads=H_KV, q_len=T_Q, k_len=T_K, batch=B, width=D, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(heads, q_len), (kv_heads, k_len), (kv_heads, k_len)]
    return [torch.randn(batch, *shape, width, generator=generator).to(dtype) for shape in shapes]


def full(q, k, mask, scale=None):
    """Scores and weights [B, H, T_q, T_k] in float64; a hidden score is -inf, an empty row of weights 0."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    k = k.double().repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    scores = q.double() @ k.transpose(-2, -1) * scale
    if mask is not None:
        mask = mask if isinstance(mask, torch.Tensor) else mask.dense(q.shape[-2], k.shape[-2])
        scores = (
            scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.to(q.dtype)
        )
    empty = (scores == -math.inf).all(dim=-1, keepdim=True)
    return scores, scores.softmax(dim=-1).masked_fill(empty, 0.0)


def positions(mask, q_len, k_len):
    """Where the queries stand, told by the name of the test."""
    return torch.arange(q_len) + (k_len - q_len if "bottom-right" in repr(mask) else 0)


def expected(q, k, mask, rule=None):
    """Every field of Rows from the full weights."""
    scores, w = full(q, k, mask)
    key, at = torch.arange(w.shape[-1]).double(), positions(mask, *w.shape[-2:])
    mean = (w * key).sum(-1)
    fields = {
        "lse": scores.logsumexp(-1),
        "entropy_nats": torch.special.entr(w).sum(-1),
        "key_mean": mean,
        "key_variance": (w * (key - mean[..., None]) ** 2).sum(-1),
        "query_position": at,
        "self_mass": (w * (key == at[:, None])).sum(-1),
        "first_mass": w[..., 0],
        "row_sum": w.sum(-1),
        "num_visible": (scores != -math.inf).sum(-1),
        "nan_count": scores.isnan().sum(-1),
        "max_score": scores.amax(-1),
    }
    if rule is not None:
        fields["forbidden_mass"] = (w * ~rule.dense(*w.shape[-2:])).sum(-1)
    return fields, w


def assert_rows_right(rows, wanted, *, tolerance=1e-5):
    """Compare field by field; positions may be off in proportion to the length."""
    for name, value in wanted.items():
        found = getattr(rows, name)
        assert found.shape == value.shape, name
        length = (
            rows.num_keys if name == "key_mean" else rows.num_keys**2 / 10 if name == "key_variance" else 1
        )
        allowed = tolerance * length if value.is_floating_point() else 0
        torch.testing.assert_close(
            found.double(),
            value.double(),
            rtol=tolerance,
            atol=allowed,
            equal_nan=True,
            msg=lambda text, n=name: f"{n}: {text}",
        )


def rows_of(q, k, v, mask, **options):
    _, statistics = observe(
        q, k, v, mask, per_query=True, exact_max=True, enable_gqa=True, empty_rows="zero", **options
    )
    return statistics.rows


@pytest.mark.parametrize("name", MASKS)
def test_every_number_of_every_row_is_that_of_the_weights(name):
    q, k, v = qkv()
    wanted, _ = expected(q, k, MASKS[name], rule=causal())
    assert_rows_right(rows_of(q, k, v, MASKS[name], rule=causal()), wanted)


@pytest.mark.parametrize("name", ["none", "causal", "left padding leaves empty rows", "dense", "alibi"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.bfloat16, 2e-3), (torch.float16, 2e-3), (torch.float64, 1e-12)]
)
def test_other_dtypes_are_measured_from_the_numbers_that_they_hold(name, dtype, tolerance):
    q, k, v = qkv(dtype=dtype)
    rows = rows_of(q, k, v, MASKS[name])
    assert rows.lse.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert_rows_right(rows, expected(q, k, MASKS[name])[0], tolerance=tolerance)


@pytest.mark.parametrize(
    ("q_len", "k_len", "mask"),
    [
        (1, 1, None),
        (1, 700, causal("bottom-right")),
        (5, 130, sliding_window(3, corner="bottom-right")),
        (130, 5, causal()),
        (64, 64, causal()),
        (257, 1025, None),
    ],
)
def test_any_two_lengths_go_together(q_len, k_len, mask):
    q, k, v = qkv(q_len=q_len, k_len=k_len)
    assert_rows_right(rows_of(q, k, v, mask), expected(q, k, mask)[0])


@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (4, 1), (6, 2), (1, 1)])
@pytest.mark.parametrize("name", ["causal", "padding"])
def test_query_heads_that_share_a_key_head_are_measured_apart(heads, kv_heads, name):
    q, k, v = qkv(heads, kv_heads)
    assert_rows_right(rows_of(q, k, v, MASKS[name]), expected(q, k, MASKS[name])[0])


def test_a_spike_far_from_the_start_has_no_spread():
    q, k, v = qkv(1, 1, 2, 20_000, 1)
    k[0, 0, 19_000] = 100 * q[0, 0, 0]
    rows = rows_of(q, k, v, None)
    assert rows.key_mean[0, 0, 0] == 19_000
    assert rows.spread_tokens[0, 0, 0] < 0.05


@pytest.mark.parametrize("size", [30.0, 300.0])
def test_weights_that_underflow_count_as_nothing(size):
    q, k, v = qkv()
    q = q * size
    assert_rows_right(rows_of(q, k, v, causal()), expected(q, k, causal())[0], tolerance=1e-3)


@pytest.mark.parametrize(
    "name", ["causal", "window", "dense", "floats that hide", "left padding leaves empty rows"]
)
def test_a_hidden_key_makes_no_row_be_measured_on_its_own(name, monkeypatch):
    def alone(*_):
        raise AssertionError("a finite row was measured again, the slow way")

    monkeypatch.setattr(Measure, "_alone", alone)
    q, k, v = qkv()
    rows_of(30 * q, k, v, MASKS[name])


def test_a_row_filled_with_the_least_number_is_uniform():
    q, k, v = qkv()
    bias = torch.zeros(T_Q, T_K)
    bias[7] = torch.finfo(torch.float32).min
    rows = rows_of(q, k, v, bias)
    torch.testing.assert_close(rows.entropy_nats[..., 7], torch.full((B, H), math.log(T_K)))
    torch.testing.assert_close(rows.row_sum[..., 7], torch.ones(B, H))


@pytest.mark.parametrize("name", ["causal", "dense", "floats that hide", "padding"])
def test_the_pooled_map_adds_up_the_weights_of_its_buckets(name):
    q, k, v = qkv()
    _, statistics = observe(q, k, v, MASKS[name], pooled=(7, 9), enable_gqa=True, empty_rows="zero")
    _, w = full(q, k, MASKS[name])
    pooled = statistics.pooled
    assert (sum(pooled.query_widths), sum(pooled.key_widths)) == (T_Q, T_K)
    assert pooled.sums.shape[-2:] == (7, 9)
    by_keys = torch.stack([part.sum(-1) for part in w.split(list(pooled.key_widths), dim=-1)], dim=-1)
    sums = torch.stack([part.sum(-2) for part in by_keys.split(list(pooled.query_widths), dim=-2)], dim=-2)
    torch.testing.assert_close(pooled.sums.double(), sums, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("buckets", [1, 5, 64, 333, 1000])
def test_there_are_at_most_as_many_buckets_as_asked_for(buckets):
    widths = Grid.of(T_K, buckets).key_widths(T_K)
    assert sum(widths) == T_K
    assert len(widths) <= buckets
    assert all(width == widths[0] for width in widths[:-1])


@pytest.mark.parametrize("name", ["none", "causal", "dilated", "left padding leaves empty rows", "floats"])
def test_the_largest_weights_are_found(name):
    q, k, v = qkv()
    rows = rows_of(q, k, v, MASKS[name], top_k=6)
    _, w = full(q, k, MASKS[name])
    torch.testing.assert_close(rows.top_weights.double(), w.topk(6).values, rtol=1e-4, atol=1e-6)
    seen = rows.top_keys >= 0
    assert torch.equal(seen.sum(-1), rows.num_visible.clamp(max=6))
    picked = w.gather(-1, rows.top_keys.clamp(min=0))
    torch.testing.assert_close(picked[seen], rows.top_weights.double()[seen], rtol=1e-4, atol=1e-6)


def test_fewer_keys_than_the_top_k_are_filled_up():
    q, k, v = qkv(k_len=3)
    rows = rows_of(q, k, v, None, top_k=5)
    assert rows.top_keys.shape == (B, H, T_Q, 5)
    assert (rows.top_keys[..., 3:] == -1).all()
    assert (rows.top_weights[..., 3:] == 0).all()


@pytest.mark.parametrize("name", MASKS)
def test_the_largest_score_lies_between_its_bounds(name):
    q, k, v = qkv()
    rows = rows_of(q, k, v, MASKS[name])
    low, high = rows.max_score_bounds
    seen = ~rows.empty
    assert (rows.max_score[seen] <= high[seen] + 1e-5 * high[seen].abs() + 1e-5).all()
    assert (rows.max_score[seen] >= low[seen] - 1e-5 * low[seen].abs() - 1e-5).all()


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("mask", [None, causal(), dilated(4, step=3)], ids=repr)
def test_broken_keys_are_counted_where_they_are_seen_and_only_there(broken, mask):
    q, k, v = qkv()
    k[0, 0, 111, 0] = broken
    v[0, 0, 111] = 0.0
    rows = rows_of(q, k, v, mask)
    scores, w = full(q, k, mask)
    visible = torch.ones(T_Q, T_K, dtype=torch.bool) if mask is None else mask.dense(T_Q, T_K)
    counted = scores.isnan() & visible
    assert torch.equal(rows.nan_count, counted.sum(-1))
    assert torch.equal(rows.inf_count, (scores.isinf() & visible).sum(-1))
    torch.testing.assert_close(
        rows.entropy_nats.double(), torch.special.entr(w).sum(-1), rtol=1e-5, atol=1e-5, equal_nan=True
    )
    assert rows.nan_count.sum() + rows.inf_count.sum() > 0


def test_a_broken_query_is_its_own_trouble():
    q, k, v = qkv()
    q[1, 2, 5] = math.nan
    rows = rows_of(q, k, v, causal())
    assert rows.nan_count[1, 2, 5] == 6
    assert rows.entropy_nats.isnan().sum() == 1


def test_empty_rows_are_zero_everywhere():
    q, k, v = qkv()
    rows = rows_of(q, k, v, MASKS["left padding leaves empty rows"], rule=causal(), top_k=2)
    empty = rows.empty
    assert empty.sum() == H * (T_K - 40)
    assert (rows.lse[empty] == -math.inf).all()
    for name in (
        "entropy_nats",
        "key_mean",
        "key_variance",
        "self_mass",
        "first_mass",
        "row_sum",
        "forbidden_mass",
    ):
        assert (getattr(rows, name)[empty] == 0).all(), name


def test_an_empty_row_is_refused_unless_zeros_are_asked_for():
    q, k, v = qkv()
    with pytest.raises(SoftlookupError, match="no key"):
        observe(q, k, v, MASKS["left padding leaves empty rows"], enable_gqa=True)


# The output


@pytest.mark.parametrize("name", MASKS)
def test_the_output_has_the_bits_of_attend(name):
    q, k, v = qkv()
    output, _ = observe(q, k, v, MASKS[name], enable_gqa=True, empty_rows="zero")
    assert torch.equal(output, attend(q, k, v, MASKS[name], enable_gqa=True, empty_rows="zero"))


@pytest.mark.parametrize("name", ["none", "causal", "window", "dense", "floats"])
def test_the_gradients_are_those_of_attend_and_statistics_have_none(name):
    found = []
    for lookup in (lambda *x, **o: observe(*x, **o)[0], attend):
        tensors = [x.requires_grad_() for x in qkv()]
        lookup(*tensors, MASKS[name], enable_gqa=True).square().sum().backward()
        found.append([x.grad for x in tensors])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    q, k, v = (x.requires_grad_() for x in qkv())
    _, statistics = observe(q, k, v, MASKS[name], enable_gqa=True, per_query=True)
    assert not any(x.requires_grad for x in statistics.rows.tensors().values())


def test_dropout_changes_the_output_and_not_the_statistics():
    q, k, v = qkv()
    torch.manual_seed(1)
    output, dropped = observe(q, k, v, causal(), dropout_p=0.5, enable_gqa=True)
    plain, kept = observe(q, k, v, causal(), enable_gqa=True)
    assert not torch.allclose(output, plain)
    torch.testing.assert_close(dropped.entropy_nats, kept.entropy_nats)


def test_the_inputs_are_left_alone():
    tensors = qkv()
    copies = [x.clone() for x in tensors]
    observe(*tensors, MASKS["floats"], enable_gqa=True, exact_max=True, top_k=2, per_query=True)
    assert all(torch.equal(x, copy) for x, copy in zip(tensors, copies, strict=True))


def test_autocast_is_measured_in_the_dtype_that_attention_sees():
    q, k, v = qkv()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        output, statistics = observe(q, k, v, causal(), enable_gqa=True, per_query=True)
    assert output.dtype == torch.bfloat16
    wanted, _ = expected(q.bfloat16(), k.bfloat16(), causal())
    assert_rows_right(statistics.rows, {"entropy_nats": wanted["entropy_nats"]}, tolerance=2e-3)


@pytest.mark.parametrize("lead", [(), (3,), (2, 2, 3)])
def test_any_leading_axes_are_read_as_batch_and_heads(lead):
    q, k, v = torch.randn(3, *lead, 20, 8)
    output, statistics = observe(q, k, v, causal(), per_query=True)
    folded = [x.reshape(-1, lead[-1] if lead else 1, 20, 8) for x in (q, k, v)]
    wanted, _ = expected(folded[0], folded[1], causal())
    assert output.shape == q.shape
    assert_rows_right(statistics.rows, {"entropy_nats": wanted["entropy_nats"]})


def test_no_queries_have_statistics_too():
    q, k, v = qkv(q_len=0)
    output, statistics = observe(q, k, v, enable_gqa=True, per_query=True)
    assert output.shape == (B, H, 0, D)
    assert statistics.rows.lse.shape == (B, H, 0)


def test_values_may_be_wider_than_keys():
    q, k, _ = qkv()
    v = torch.randn(B, H_KV, T_K, 24)
    output, statistics = observe(q, k, v, causal(), enable_gqa=True)
    assert output.shape == (B, H, T_Q, 24)
    assert statistics.entropy_nats.shape == (B, H)


# Refusals


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"pooled": (0, 64)}, "buckets of queries"),
        ({"pooled": 64}, "two whole numbers"),
        ({"top_k": -1}, "top_k"),
        ({"rule": torch.zeros(T_Q, T_K)}, "which keys may be looked at"),
        ({"rule": alibi(H)}, "which keys may be looked at"),
        ({"rule": torch.ones(3, 3, dtype=torch.bool)}, "does not broadcast"),
        ({"rule": padding([1, 2, 3])}, "B = 3"),
    ],
)
def test_what_cannot_be_asked_is_refused_in_words(options, words):
    with pytest.raises(SoftlookupError, match=words):
        observe(*qkv(), causal(), enable_gqa=True, **options)


# The other way to the same numbers


@pytest.mark.parametrize(
    "name", [name for name, mask in MASKS.items() if "floats" not in name and "alibi" not in name]
)
def test_values_looked_up_give_the_same_numbers_as_the_pass_over_the_scores(name):
    q, k, _ = qkv()
    mask = Mask.from_tensor(MASKS[name]) if isinstance(MASKS[name], torch.Tensor) else MASKS[name]
    scores = read_scores(q, k, mask, scale=None)
    wanted = Wanted(query_bucket=40, key_buckets=8, rule=read_seen(q, k, sliding_window(30)), key_mass=True)
    by_values, one_pass = statistics_by_values(scores, wanted), statistics_of_scores(scores, wanted)
    assert by_values is not None
    torch.testing.assert_close(by_values[1], one_pass[1], rtol=1e-4, atol=1e-4)
    others = one_pass[0].tensors()
    del others["query_position"]
    assert by_values[0].tensors().keys() == one_pass[0].tensors().keys()
    for field, value in others.items():
        scale = {"key_mean": T_K, "key_variance": T_K**2 / 10}.get(field, 1)
        torch.testing.assert_close(
            by_values[0].tensors()[field],
            value,
            rtol=1e-4,
            atol=2e-5 * scale,
            msg=lambda text, f=field: f"{f}: {text}",
        )


@pytest.mark.parametrize("asked", [{"exact_max": True}, {"top_k": 2}])
def test_what_is_not_linear_is_not_looked_up(asked):
    q, k, _ = qkv()
    assert statistics_by_values(read_scores(q, k, causal(), scale=None), Wanted(5, 8, **asked)) is None
    assert statistics_by_values(read_scores(q, k, alibi(H), scale=None), Wanted(5, 8)) is None


@pytest.mark.parametrize("name", ["causal", "padding", "dense", "dilated", "floats that hide"])
def test_without_a_log_sum_exp_one_more_pass_finds_it(name):
    q, k, _ = qkv()
    scores = read_scores(q, k, MASKS[name], scale=None)
    rows, _ = statistics_of_scores(scores, Wanted(40, 8, exact_max=True))
    assert_rows_right(rows, expected(q, k, MASKS[name])[0])


# Shards


@pytest.mark.parametrize(
    "name", ["none", "causal", "padding", "window", "dilated", "dense", "alibi", "floats that hide"]
)
def test_shards_of_keys_and_queries_merge_into_the_whole(name):
    q, k, v = qkv()
    options = {"q_total": T_Q, "k_total": T_K, "rule": causal(), "exact_max": True, "enable_gqa": True}
    whole = None
    for q_start, q_stop in ((0, 130), (130, T_Q)):
        part, outputs = None, []
        for k_start, k_stop in ((0, 100), (100, 101), (101, T_K)):
            output, rows = observe_shard(
                q[:, :, q_start:q_stop],
                k[:, :, k_start:k_stop],
                v[:, :, k_start:k_stop],
                MASKS[name],
                q_start=q_start,
                k_start=k_start,
                **options,
            )
            outputs.append((output, rows.lse))
            part = rows if part is None else part.merge_keys(rows)
        merged = sum(out * (lse - part.lse).exp().nan_to_num()[..., None] for out, lse in outputs)
        attended = attend(q, k, v, MASKS[name], enable_gqa=True, empty_rows="zero")[:, :, q_start:q_stop]
        torch.testing.assert_close(merged, attended, rtol=1e-4, atol=1e-5)
        whole = part if whole is None else whole.concat(part)
    wanted, w = expected(q, k, MASKS[name], rule=causal())
    assert_rows_right(whole, wanted, tolerance=2e-5)
    widths = Grid.of(T_K, 64).key_widths(T_K)
    by_keys = torch.stack([x.sum(-1) for x in w.split(list(widths), dim=-1)], dim=-1)
    torch.testing.assert_close(whole.key_mass.double(), by_keys, rtol=1e-4, atol=1e-5)


def test_a_shard_outside_the_whole_is_refused():
    q, k, v = qkv()
    with pytest.raises(SoftlookupError, match="do not lie in the whole"):
        observe_shard(q, k, v, q_start=1, k_start=0, q_total=T_Q, k_total=T_K, enable_gqa=True)


# Single rows


@pytest.mark.parametrize("name", MASKS)
def test_chosen_rows_are_those_of_the_whole_map(name):
    q, k, _ = qkv()
    queries, heads = [299, 0, 41], [3, 0]
    rows = weights_of(q, k, MASKS[name], queries=queries, heads=heads, enable_gqa=True)
    scores, w = full(q, k, MASKS[name])
    assert rows.shape == (B, 2, 3, T_K)
    torch.testing.assert_close(rows.double(), w[:, heads][:, :, queries], rtol=1e-4, atol=1e-6)
    assert (rows[(scores == -math.inf)[:, heads][:, :, queries]] == 0).all()


def test_all_rows_come_when_none_are_chosen():
    q = torch.randn(20, 8)
    torch.testing.assert_close(
        weights_of(q, q, causal()).double(),
        full(q[None, None], q[None, None], causal())[1][0, 0],
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize("chosen", [{"queries": [T_Q]}, {"heads": [0, H]}, {"queries": [-1]}, {"heads": "0"}])
def test_a_row_that_is_not_there_is_refused(chosen):
    q, k, _ = qkv()
    with pytest.raises(SoftlookupError, match=r"queries|heads"):
        weights_of(q, k, enable_gqa=True, **chosen)


# Memory

PEAK = """
    import resource, sys, torch
    torch.set_num_threads(1)
    from softlookup.masks import causal
    from softlookup.statistics import observe
    T = int(sys.argv[1])
    q, k, v = torch.randn(3, 1, 1, T, 16)
    observe(q[:, :, :256], k[:, :, :256], v[:, :, :256], causal())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    observe(q, k, v, causal(), exact_max=True)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def test_memory_grows_with_the_length_and_not_with_its_square():
    T = 16_384
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PEAK), str(T)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < T * T * 4 / 16  # one float for each pair would be 16 times as much


def test_the_heaviest_keys_are_kept_when_they_are_asked_for():
    q, k, v = torch.randn(3, 1, 2, 9, 8)
    _, statistics = observe(q, k, v, causal(), top_k=2)
    assert statistics.rows.top_keys.shape == (1, 2, 9, 2)
    assert statistics.rows.top_keys[0, 0, 0].tolist() == [0, -1]  # the first query sees one key
