"""Statistics of parts merge into those of the whole; the whole is always written out from plain weights."""

import dataclasses
import doctest
import itertools
import json
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup.statistics import moments, pooled, rows, showing, summary
from softlookup.statistics.moments import Moments
from softlookup.statistics.pooled import PooledMap, bucket_widths
from softlookup.statistics.rows import Rows
from softlookup.statistics.summary import Statistics
from softlookup.terms import SoftlookupError

BUCKET = 2
TOP = 3
NAN = math.nan


@dataclasses.dataclass
class Lookup:
    """Scores [B, H, T_q, T_k], which keys are visible, and which of them a rule forbids."""

    scores: torch.Tensor
    visible: torch.Tensor
    forbidden: torch.Tensor

    def part(self, queries=slice(None), keys=slice(None), samples=slice(None)):
        return Lookup(*(it[samples, :, queries, keys] for it in (self.scores, self.visible, self.forbidden)))


def a_lookup(seed, shape, hidden=0.4, spread=3.0):
    draw = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(shape, generator=draw, dtype=torch.float64)
    visible, forbidden = (torch.rand(shape, generator=draw) >= share for share in (hidden, 0.5))
    return Lookup(scores, visible, forbidden)


def weights_of(lookup):
    """Return the plain softmax over visible keys; 0 in a row without any."""
    weights = lookup.scores.masked_fill(~lookup.visible, -math.inf).softmax(dim=-1)
    return weights.masked_fill(~lookup.visible.any(dim=-1, keepdim=True), 0.0)


def rows_of(lookup, *, k_start=0, q_start=0, k_total=None, dtype=torch.float64):
    """Return the rows of weights that are written out, by the definition of each number."""
    scores, visible = lookup.scores, lookup.visible
    q_len, k_len = scores.shape[-2:]
    weights, hidden = weights_of(lookup), scores.masked_fill(~visible, -math.inf)
    positions = k_start + torch.arange(k_len)
    here = q_start + torch.arange(q_len)
    mean = (weights * positions).sum(-1)
    logs = torch.where(weights > 0, weights, 1.0).log()
    best = weights.masked_fill(~visible, -1.0).sort(dim=-1, descending=True)
    best_keys, best_weights = (
        torch.nn.functional.pad(it[..., :TOP], (0, max(0, TOP - k_len)), value=fill)
        for it, fill in ((positions[best.indices], -1), (best.values, -1.0))
    )
    buckets = torch.nn.functional.one_hot(positions // BUCKET, -(-(k_total or k_len) // BUCKET)).double()
    floats = {
        "lse": hidden.logsumexp(-1),
        "entropy_nats": -(weights * logs).sum(-1),
        "key_mean": mean,
        "key_variance": (weights * (positions - mean[..., None]) ** 2).sum(-1),
        "self_mass": (weights * (positions == here[:, None])).sum(-1),
        "first_mass": (weights * (positions == 0)).sum(-1),
        "row_sum": weights.sum(-1),
        "max_score": torch.nn.functional.pad(hidden, (1, 0), value=-math.inf).amax(-1),
        "forbidden_mass": (weights * (visible & lookup.forbidden)).sum(-1),
        "key_mass": weights @ buckets,
        "top_weights": best_weights.clamp(min=0),
    }
    return Rows(
        **{name: value.to(dtype) for name, value in floats.items()},
        query_position=here,
        num_visible=visible.sum(-1),
        num_keys=k_len,
        nan_count=(visible & scores.isnan()).sum(-1),
        inf_count=(visible & scores.isinf()).sum(-1),
        top_keys=best_keys.masked_fill(best_weights < 0, -1),
    )


def assert_same_rows(found, expected, *, within=1e-9, but=()):
    assert found.num_keys == expected.num_keys
    ours, theirs = found.tensors(), expected.tensors()
    assert ours.keys() == theirs.keys()
    for name in ours.keys() - set(but):
        torch.testing.assert_close(
            ours[name].double(), theirs[name].double(), rtol=within, atol=within, equal_nan=True, msg=name
        )


def merged_in_any_order(data, parts, merge):
    """Merge any two of the parts until one is left."""
    parts = list(parts)
    while len(parts) > 1:
        first = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        second = parts.pop(data.draw(st.integers(0, len(parts) - 1)))
        parts.append(merge(first, second))
    return parts[0]


def cuts(data, length):
    """Return slices that cover 0 to length; some may be empty."""
    inner = data.draw(st.lists(st.integers(0, length), max_size=4))
    edges = [0, *sorted(inner), length]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


LOOKUPS = st.builds(
    a_lookup,
    st.integers(0, 2**31),
    st.tuples(st.just(1), st.just(2), st.integers(1, 4), st.integers(1, 12)),
    hidden=st.sampled_from([0.0, 0.4, 0.8, 1.0]),
    spread=st.sampled_from([1e-3, 1.0, 40.0]),
)


def key_shards(data, lookup, dtype=torch.float64):
    k_len = lookup.scores.shape[-1]
    return [
        rows_of(lookup.part(keys=cut), k_start=cut.start, k_total=k_len, dtype=dtype)
        for cut in cuts(data, k_len)
    ]


# -------------------------------------------------------------------------------------- rows over keys


@given(LOOKUPS, st.data())
@settings(max_examples=60, deadline=None)
def test_shards_of_keys_merge_into_the_rows_of_all_keys_in_any_grouping(lookup, data):
    merged = merged_in_any_order(data, key_shards(data, lookup), Rows.merge_keys)
    assert_same_rows(merged, rows_of(lookup))


@given(LOOKUPS, st.data())
@settings(max_examples=40, deadline=None)
def test_in_float32_the_merged_rows_are_right_to_a_hundred_thousandth(lookup, data):
    merged = merged_in_any_order(data, key_shards(data, lookup, torch.float32), Rows.merge_keys)
    assert merged.lse.dtype == torch.float32
    # The lse is known to 2^-24 of its size, and so is the log of a share: 40 sigma, some 150 nats.
    # Weights that float32 rounds to 0 have no order.
    assert_same_rows(
        merged, rows_of(lookup), within=5e-5 if lookup.scores.std() > 9 else 1e-5, but=["top_keys"]
    )


def test_rows_without_keys_change_nothing_on_either_side():
    whole = rows_of(a_lookup(1, (2, 3, 4, 5)))
    nothing = whole.without_keys()
    assert nothing.num_keys == 0
    for merged in (whole.merge_keys(nothing), nothing.merge_keys(whole)):
        assert_same_rows(merged, whole, within=0.0)


def test_a_query_without_keys_in_any_shard_stays_empty():
    empty = rows_of(a_lookup(2, (1, 1, 2, 6), hidden=1.0))
    merged = empty.merge_keys(empty)
    assert merged.empty.all()
    assert (merged.lse == -math.inf).all()
    assert (merged.max_score == -math.inf).all()
    for name in (
        "entropy_nats",
        "key_mean",
        "key_variance",
        "row_sum",
        "self_mass",
        "key_mass",
        "top_weights",
    ):
        assert (getattr(merged, name) == 0).all(), name
    assert (merged.top_keys == -1).all()
    assert (merged.row_sum_error == 0).all()
    assert (merged.masked_fraction == 1).all()


def test_a_nan_score_shows_in_its_row_only_and_is_counted():
    lookup = a_lookup(3, (1, 1, 2, 6), hidden=0.0)
    lookup.scores[0, 0, 1, 4] = NAN
    first, second = (
        rows_of(lookup.part(keys=cut), k_start=cut.start, k_total=6) for cut in (slice(0, 4), slice(4, 6))
    )
    for merged in (first.merge_keys(second), second.merge_keys(first)):
        assert merged.nan_count.tolist() == [[[0, 1]]]
        for name in ("lse", "entropy_nats", "key_mean", "row_sum", "max_score"):
            assert getattr(merged, name).isnan().tolist() == [[[False, True]]], name


def test_scores_that_are_infinite_are_counted_over_all_shards():
    lookup = a_lookup(4, (1, 1, 1, 6), hidden=0.0)
    lookup.scores[0, 0, 0, [0, 5]] = torch.tensor([math.inf, -math.inf], dtype=torch.float64)
    halves = [rows_of(lookup.part(keys=cut), k_total=6) for cut in (slice(0, 3), slice(3, 6))]
    assert halves[0].merge_keys(halves[1]).inf_count.tolist() == [[[2]]]


def test_of_two_equal_weights_the_earlier_key_comes_first():
    lookup = a_lookup(0, (1, 1, 1, 4), hidden=0.0, spread=0.0)
    halves = [
        rows_of(lookup.part(keys=cut), k_start=cut.start, k_total=4) for cut in (slice(0, 2), slice(2, 4))
    ]
    for merged in (halves[0].merge_keys(halves[1]), halves[1].merge_keys(halves[0])):
        assert merged.top_keys.tolist() == [[[[0, 1, 2]]]]


def test_a_visible_key_whose_weight_rounds_to_nothing_comes_before_no_key():
    lookup = a_lookup(0, (1, 1, 1, 3), hidden=0.0)
    lookup.scores[..., 1] = -2000.0
    lookup.visible[..., 2] = False
    halves = [
        rows_of(lookup.part(keys=cut), k_start=cut.start, k_total=3) for cut in (slice(0, 1), slice(1, 3))
    ]
    for merged in (halves[0].merge_keys(halves[1]), halves[1].merge_keys(halves[0])):
        assert merged.top_keys.tolist() == [[[[0, 1, -1]]]]


@given(LOOKUPS)
@settings(max_examples=40, deadline=None)
def test_the_largest_score_lies_between_its_bounds(lookup):
    whole = rows_of(lookup)
    least, most = whole.max_score_bounds
    assert (least <= whole.max_score + 1e-9).all()
    assert (whole.max_score <= most + 1e-9).all()


def test_a_row_tells_how_far_back_and_how_widely_it_looks():
    weights = torch.tensor([[[[0.5, 0.0, 0.5, 0.0]]]], dtype=torch.float64)  # keys 0 and 2
    lookup = Lookup(weights.log(), weights > 0, weights < 0)
    row = rows_of(lookup, q_start=3)
    assert row.distance_tokens.item() == pytest.approx(3 - 1)
    assert row.spread_tokens.item() == pytest.approx(1.0)
    assert row.masked_fraction.item() == 0.5
    row = dataclasses.replace(row, row_sum=row.row_sum - 0.25)
    assert row.row_sum_error.item() == pytest.approx(0.25)


def everything_at_half(one, two):
    return torch.full_like(one.lse, 0.5), torch.full_like(two.lse, 0.5)


def without_the_chain_rule(self, other, mine, theirs):
    return rows._mixed(mine, self.entropy_nats, theirs, other.entropy_nats)


@pytest.mark.parametrize(
    ("home", "name", "broken"),
    [
        (rows, "_shares", everything_at_half),
        (Rows, "_entropy_of_both", without_the_chain_rule),
        (Rows, "_top_of_both", lambda self, other, mine, theirs: {}),
        (torch, "maximum", lambda a, b: a),
    ],
)
def test_a_broken_merge_is_caught(home, name, broken, monkeypatch):
    lookup = a_lookup(5, (1, 2, 8, 9))
    halves = [
        rows_of(lookup.part(keys=cut), k_start=cut.start, k_total=9) for cut in (slice(0, 4), slice(4, 9))
    ]
    assert_same_rows(halves[0].merge_keys(halves[1]), rows_of(lookup))
    monkeypatch.setattr(home, name, broken)
    with pytest.raises(AssertionError):
        assert_same_rows(halves[0].merge_keys(halves[1]), rows_of(lookup))


# ---------------------------------------------------------------------------------------- over queries


@given(LOOKUPS, st.data())
@settings(max_examples=30, deadline=None)
def test_shards_of_queries_join_into_the_rows_of_all_queries(lookup, data):
    parts = [
        rows_of(lookup.part(queries=cut), q_start=cut.start) for cut in cuts(data, lookup.scores.shape[-2])
    ]
    joined = parts[0]
    for part in parts[1:]:
        joined = joined.concat(part)
    assert_same_rows(joined, rows_of(lookup), within=1e-12)


# -------------------------------------------------------------------------------------------- refusing


def refusal(act):
    with pytest.raises(SoftlookupError) as error:
        act()
    return str(error.value)


def test_rows_in_which_something_else_was_measured_are_refused():
    whole = rows_of(a_lookup(6, (1, 1, 2, 4)))
    words = refusal(lambda: whole.merge_keys(dataclasses.replace(whole, max_score=None)))
    assert "only on one side: max_score" in words
    assert "observe both with the same exact_max" in words


def test_rows_of_other_queries_do_not_merge_over_keys():
    lookup = a_lookup(7, (1, 1, 2, 4))
    words = refusal(lambda: rows_of(lookup).merge_keys(rows_of(lookup, q_start=2)))
    assert "queries 0 to 1 and queries 2 to 3" in words
    assert "concat" in words


def test_rows_of_another_shape_are_refused():
    one, two = (rows_of(a_lookup(8, (1, heads, 2, 4))) for heads in (1, 2))
    assert "differ in shape" in refusal(lambda: one.merge_keys(two))
    assert "differ in shape" in refusal(lambda: one.concat(two))


def test_rows_over_other_keys_are_not_joined():
    lookup = a_lookup(9, (1, 1, 2, 4))
    words = refusal(lambda: rows_of(lookup).concat(rows_of(lookup.part(keys=slice(3)), q_start=2, k_total=4)))
    assert "4 and 3" in words
    assert "merge_keys first" in words


# --------------------------------------------------------------------------------------------- moments

NUMBERS = st.lists(st.floats(-1e6, 1e6), max_size=8)


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.data())
@settings(max_examples=60, deadline=None)
def test_moments_of_parts_merge_into_those_of_all_numbers(parts, data):
    tensors = [torch.tensor(part, dtype=torch.float64) for part in parts]
    merged = merged_in_any_order(data, [Moments.of(it) for it in tensors], Moments.merge)
    numbers = torch.cat(tensors)
    assert merged.count == len(numbers)
    if not len(numbers):
        assert merged.mean.isnan()
        assert merged.std.isnan()
        assert (merged.low, merged.high) == (math.inf, -math.inf)
        return
    assert merged.mean.item() == pytest.approx(numbers.mean().item(), abs=1e-8)
    assert merged.std.item() == pytest.approx(numbers.std(correction=0).item(), rel=1e-9, abs=1e-4)
    assert (merged.low, merged.high) == (numbers.min(), numbers.max())


def test_moments_of_nothing_change_nothing():
    some, nothing = Moments.of(torch.tensor([1.0, 5.0])), Moments.of(torch.empty(0))
    for merged in (some.merge(nothing), nothing.merge(some)):
        for field in dataclasses.fields(Moments):
            assert getattr(merged, field.name) == getattr(some, field.name), field.name


def test_moments_stay_exact_far_from_zero():
    near = torch.tensor([1e9, 1e9 + 1, 1e9 + 2], dtype=torch.float64)
    merged = Moments.of(near).merge(Moments.of(near + 3))
    assert merged.std.item() == pytest.approx(math.sqrt(35 / 12), rel=1e-12)


def test_a_nan_shows_in_moments_unless_it_does_not_count():
    numbers = torch.tensor([1.0, NAN])
    assert Moments.of(numbers).mean.isnan()
    assert Moments.of(numbers).high.isnan()
    kept = Moments.of(numbers, torch.tensor([True, False]))
    assert (kept.count, kept.mean, kept.m2, kept.low, kept.high) == (1, 1.0, 0.0, 1.0, 1.0)


# ------------------------------------------------------------------------------------------------ maps


@given(st.integers(0, 40), st.integers(1, 12))
def test_buckets_cover_every_position_once(length, buckets):
    widths = bucket_widths(length, buckets)
    assert sum(widths) == length
    assert len(widths) <= buckets
    assert all(width == widths[0] for width in widths[:-1])


def map_of(lookup, query_widths=(2, 2, 1), **places):
    k_total = places.get("k_total", lookup.scores.shape[-1])
    key_widths = bucket_widths(k_total, -(-k_total // BUCKET))
    return PooledMap.of(rows_of(lookup, **places).key_mass, query_widths=query_widths, key_widths=key_widths)


def test_a_map_holds_the_sums_of_the_weights_of_each_cell():
    lookup = a_lookup(10, (2, 2, 5, 7))
    weights = weights_of(lookup)
    cells = [
        [weights[..., q : q + 2, k : k + 2].sum((-2, -1)) for k in range(0, 7, 2)] for q in range(0, 5, 2)
    ]
    expected = torch.stack([torch.stack(line, dim=-1) for line in cells], dim=-2)
    torch.testing.assert_close(map_of(lookup).sums, expected)


def test_a_row_of_shares_sums_to_one():
    shares = map_of(a_lookup(11, (2, 2, 5, 7), hidden=0.0)).over_batch().shares
    torch.testing.assert_close(shares.sum(-1), torch.ones(1, 2, 3, dtype=torch.float64))


def test_maps_of_query_shards_are_stacked():
    lookup = a_lookup(12, (1, 2, 5, 7))
    first, second = (
        map_of(lookup.part(queries=q), widths) for q, widths in ((slice(2), (2,)), (slice(2, 5), (2, 1)))
    )
    stacked = first.merge_queries(second)
    assert stacked.grid == map_of(lookup).grid
    torch.testing.assert_close(stacked.sums, map_of(lookup).sums)


def test_the_mean_map_of_steps_and_samples_is_that_of_all_of_them():
    lookups = [a_lookup(seed, (2, 2, 5, 7)) for seed in (13, 14)]
    both = map_of(lookups[0]).merge_maps(map_of(lookups[1])).over_batch()
    expected = torch.cat([map_of(it).sums for it in lookups]).mean(0, keepdim=True)
    torch.testing.assert_close(both.mean, expected)


# ------------------------------------------------------------------------------------------ statistics


def statistics_of(lookup, *, keep_rows=False, **places):
    k_total = places.get("k_total", lookup.scores.shape[-1])
    whole = rows_of(lookup, **places)
    grid = bucket_widths(lookup.scores.shape[-2], 3), bucket_widths(k_total, -(-k_total // BUCKET))
    pooled_map = PooledMap.of(whole.key_mass, query_widths=grid[0], key_widths=grid[1])
    return Statistics.from_rows(whole, pooled_map, keep_rows=keep_rows)


def assert_same_statistics(found, expected, *, within=1e-9):
    assert found.moments.keys() == expected.moments.keys()
    assert found.counts.keys() == expected.counts.keys()
    for name, moments_ in expected.moments.items():
        for field in dataclasses.fields(Moments):
            ours, theirs = (getattr(it, field.name) for it in (found.moments[name], moments_))
            torch.testing.assert_close(ours, theirs, rtol=within, atol=within, equal_nan=True, msg=name)
    for name, count in expected.counts.items():
        assert torch.equal(found.counts[name], count), name
    assert (found.pooled is None) == (expected.pooled is None)
    if found.pooled is not None:
        assert found.pooled.grid == expected.pooled.grid
        assert found.pooled.maps == expected.pooled.maps
        torch.testing.assert_close(found.pooled.sums, expected.pooled.sums)


def test_statistics_are_those_of_the_queries_that_see_a_key():
    lookup = a_lookup(15, (2, 3, 40, 4), hidden=0.6)
    found, weights = statistics_of(lookup), weights_of(lookup)
    sees = lookup.visible.any(-1)
    assert 0 < (~sees).sum() < sees.numel()
    for b in range(2):
        for h in range(3):
            kept = weights[b, h][sees[b, h]]
            entropy = torch.special.entr(kept).sum(-1)
            back = torch.arange(40)[sees[b, h]] - (kept * torch.arange(4)).sum(-1)
            assert found.entropy_nats[b, h].item() == pytest.approx(entropy.mean().item())
            assert found.moments["entropy_nats"].std[b, h].item() == pytest.approx(
                entropy.std(correction=0).item()
            )
            assert found.distance_tokens[b, h].item() == pytest.approx(back.mean().item())
            assert found.first_mass[b, h].item() == pytest.approx(kept[:, 0].mean().item())
            scores = lookup.scores[b, h][lookup.visible[b, h]]
            assert found.max_score[b, h].item() == scores.max().item()
            forbidden = (weights * lookup.forbidden)[b, h][sees[b, h]].sum(-1)
            assert found.forbidden_mass[b, h].item() == pytest.approx(forbidden.mean().item())
    assert torch.equal(found.queries, torch.full((2, 3), 40))
    assert torch.equal(found.empty_rows, (~sees).sum(-1))
    torch.testing.assert_close(found.masked_fraction, (~lookup.visible).double().mean((-2, -1)))
    least, most = found.max_score_bounds
    assert ((least <= found.max_score) & (found.max_score <= most)).all()


def test_what_was_not_asked_for_is_none():
    bare = dataclasses.replace(rows_of(a_lookup(16, (1, 1, 2, 4))), max_score=None, forbidden_mass=None)
    found = Statistics.from_rows(bare)
    assert (found.max_score, found.forbidden_mass, found.pooled, found.rows) == (None, None, None, None)


@given(LOOKUPS, st.data())
@settings(max_examples=30, deadline=None)
def test_statistics_of_key_shards_merge_into_those_of_all_keys(lookup, data):
    k_len = lookup.scores.shape[-1]
    parts = [
        statistics_of(lookup.part(keys=cut), k_start=cut.start, k_total=k_len, keep_rows=True)
        for cut in cuts(data, k_len)
    ]
    merged = merged_in_any_order(data, parts, Statistics.merge_keys)
    assert_same_statistics(merged, statistics_of(lookup))
    assert_same_rows(merged.rows, rows_of(lookup))


def test_statistics_of_query_shards_merge_into_those_of_all_queries():
    lookup = a_lookup(17, (2, 2, 6, 7))
    first, second = (
        statistics_of(lookup.part(queries=cut), q_start=cut.start, keep_rows=True)
        for cut in (slice(0, 3), slice(3, 6))
    )
    merged = first.merge_queries(second)
    assert merged.pooled.query_widths == (1,) * 6
    whole = statistics_of(lookup)
    assert_same_statistics(dataclasses.replace(merged, pooled=None), dataclasses.replace(whole, pooled=None))
    assert_same_rows(merged.rows, rows_of(lookup))


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
@settings(max_examples=30, deadline=None)
def test_steps_merge_in_any_order_into_the_moments_of_all_their_queries(samples, data):
    lookups = [a_lookup(seed, (B, 2, 3, 5)) for seed, B in enumerate(samples)]
    merged = merged_in_any_order(data, [statistics_of(it) for it in lookups], Statistics.merge_steps)
    if len(set(samples)) > 1:
        assert len(merged.queries) == 1
    else:
        assert len(merged.queries) == samples[0]
    merged = merged.over_batch()
    expected = statistics_of(
        Lookup(
            *(torch.cat([getattr(it, name) for it in lookups]) for name in ("scores", "visible", "forbidden"))
        )
    )
    assert_same_statistics(merged, expected.over_batch())
    assert merged.steps == len(samples)
    assert merged.rows is None


def test_samples_stay_apart_while_every_step_has_as_many():
    one, two = (statistics_of(a_lookup(seed, (2, 1, 3, 5), hidden=0.0)) for seed in (18, 19))
    both = one.merge_steps(two)
    torch.testing.assert_close(both.entropy_nats, (one.entropy_nats + two.entropy_nats) / 2)


def test_the_rows_of_one_step_are_not_those_of_all_steps():
    step = statistics_of(a_lookup(18, (2, 1, 3, 5)), keep_rows=True)
    assert step.merge_steps(step).rows is None


def test_steps_of_other_lengths_merge_without_a_map():
    short, long = (statistics_of(a_lookup(20, (1, 2, T, T))) for T in (4, 9))
    merged = short.merge_steps(long)
    assert merged.pooled is None
    assert merged.queries.tolist() == [[13, 13]]


def test_averages_do_not_merge_over_keys_and_say_what_to_ask_for():
    with_rows, without = (statistics_of(a_lookup(21, (1, 1, 2, 4)), keep_rows=keep) for keep in (True, False))
    words = refusal(lambda: with_rows.merge_keys(without))
    assert "no rows in the second" in words
    assert "per_query=True" in words


def test_statistics_that_do_not_belong_together_are_refused():
    lookup = a_lookup(22, (1, 2, 2, 4))
    whole = statistics_of(lookup)
    bare = Statistics.from_rows(dataclasses.replace(rows_of(lookup), max_score=None))
    fewer = statistics_of(a_lookup(22, (1, 1, 2, 4)))
    assert "the same statistics" in refusal(lambda: whole.merge_steps(bare))
    assert "the same samples and heads" in refusal(lambda: whole.merge_steps(fewer))
    assert "the same steps" in refusal(lambda: whole.merge_queries(whole.merge_steps(whole)))


def test_key_shards_with_other_buckets_are_refused():
    lookup = a_lookup(23, (1, 1, 2, 4))
    one = statistics_of(lookup, keep_rows=True)
    two = dataclasses.replace(one, pooled=dataclasses.replace(one.pooled, key_widths=(3, 1)))
    assert "buckets" in refusal(lambda: one.merge_keys(two))


def a_head_that_sees_nothing():
    lookup = a_lookup(24, (1, 2, 3, 4), hidden=0.0)
    lookup.visible[:, 1] = False
    lookup.scores[0, 0, 1, 1] = NAN
    return statistics_of(lookup)


def test_as_a_dictionary_they_are_strict_json():
    found = a_head_that_sees_nothing().as_dict()
    again = json.loads(json.dumps(found, allow_nan=False))
    assert again == found
    assert again["counts"]["empty_rows"] == [[0, 3]]
    assert again["moments"]["entropy_nats"]["mean"] == [["nan", "nan"]]
    assert again["moments"]["entropy_nats"]["low"][0][1] == "inf"
    assert again["pooled"]["query_widths"] == [1, 1, 1]


def test_printed_they_are_a_table_with_what_is_odd_below():
    text = repr(a_head_that_sees_nothing())
    assert "1 sample, 1 step" in text
    assert "entropy_nats" in text
    assert "nan" in text
    assert "3 of 6 queries see no key" in text
    assert "1 visible scores are NaN" in text
    assert "infinite" not in text


def test_a_table_of_many_heads_says_how_many_it_leaves_out():
    assert "... and 8 more" in repr(statistics_of(a_lookup(25, (1, 40, 2, 3))))


@pytest.mark.parametrize(
    "module", [rows, moments, pooled, showing, summary], ids=lambda module: module.__name__
)
def test_the_examples_run(module):
    assert doctest.testmod(module).failed == 0
