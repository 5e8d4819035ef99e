"""What a watch remembers stays bounded, and says the same as all records together."""

import math
import random
import sys
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from softlookup import observe
from softlookup.live.history import History, Place, merge_all
from softlookup.live.numbers_of_heads import WORSE, head_numbers
from softlookup.live.record import Call, Record
from softlookup.live.thinned_series import ThinnedSeries
from softlookup.masks import causal

HEADS = 3


def observed(seed, *, length=6, samples=2, scale=1.0, **options):
    draw = torch.Generator().manual_seed(seed)
    q, k, v = scale * torch.randn(3, samples, HEADS, length, 4, generator=draw)
    return observe(q, k, v, causal(), **options)[1]


def record_of(step, statistics, layer="layers.0", kind="self"):
    call = Call(step, layer, 0, "softmax", kind, True, 1, HEADS, HEADS, 6, 6)
    return Record(call, statistics, 6)


def close(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12, equal_nan=True, check_dtype=False)


def same(ours, theirs):
    assert ours.moments.keys() == theirs.moments.keys()
    for name, moments in ours.moments.items():
        for part in ("count", "mean", "m2", "low", "high"):
            close(getattr(moments, part), getattr(theirs.moments[name], part))
    for name, count in ours.counts.items():
        assert torch.equal(count, theirs.counts[name])
    assert ours.steps == theirs.steps
    assert (ours.pooled is None) == (theirs.pooled is None)
    if ours.pooled is not None:
        close(ours.pooled.mean, theirs.pooled.mean)
        assert (ours.pooled.grid, ours.pooled.maps) == (theirs.pooled.grid, theirs.pooled.maps)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.sampled_from([6, 6, 6, 7])), min_size=1, max_size=40),
    st.integers(0, 99),
)
def test_statistics_are_those_of_merging_every_call(calls, seed):
    each = [
        observed(seed + step, samples=samples, length=length) for step, (samples, length) in enumerate(calls)
    ]
    one_by_one = each[0].over_batch()
    for statistics in each[1:]:
        one_by_one = one_by_one.merge_steps(statistics.over_batch())
    history = History()
    history.add([record_of(step, statistics) for step, statistics in enumerate(each)])
    same(history.statistics()[Place("layers.0", "self", HEADS)], one_by_one)
    same(merge_all(each), one_by_one)


def test_reading_in_between_changes_nothing():
    once, often = History(), History()
    for step in range(40):
        record = record_of(step, observed(step))
        once.add([record])
        often.add([record])
        often.statistics(), often.series()
    place = Place("layers.0", "self", HEADS)
    same(often.statistics()[place], once.statistics()[place])
    assert often.series()[place].steps == once.series()[place].steps


def test_a_number_that_some_calls_measured_is_of_those_calls():
    with_rule = [observed(seed, rule=causal()) for seed in range(2)]
    both = merge_all([with_rule[0], observed(5), with_rule[1]])
    alone = with_rule[0].over_batch().merge_steps(with_rule[1].over_batch())
    close(both.forbidden_mass, alone.forbidden_mass)
    assert torch.equal(both.moments["forbidden_mass"].count, alone.moments["forbidden_mass"].count)
    assert both.steps == 3


def test_layers_kinds_and_numbers_of_heads_are_kept_apart():
    history = History()
    history.add(
        [record_of(0, observed(0)), record_of(0, observed(1), "b"), record_of(1, observed(2), kind="cached")]
    )
    assert set(history.statistics()) == {
        Place("layers.0", "self", HEADS),
        Place("b", "self", HEADS),
        Place("layers.0", "cached", HEADS),
    }


def test_a_watch_of_some_heads_is_remembered_like_one_of_all():
    q, k, v = torch.randn(3, 1, HEADS - 1, 6, 4)
    history = History()
    history.add([record_of(0, observe(q, k, v)[1]), record_of(1, observed(0))])  # of a layer with three heads
    assert {place.num_heads: it.self_mass.shape for place, it in history.statistics().items()} == {
        HEADS - 1: (1, HEADS - 1),
        HEADS: (1, HEADS),
    }
    assert all(it.low["self_mass"].shape == (1, place.num_heads) for place, it in history.series().items())


def test_only_the_last_records_are_kept():
    history = History(keep=5)
    records = [record_of(step, observed(0)) for step in range(20)]
    history.add(records)
    assert history.records == tuple(records[-5:])
    assert history.statistics()[Place("layers.0", "self", HEADS)].steps == 20


def test_memory_stays_bounded_over_a_hundred_thousand_calls():
    series = ThinnedSeries(HEADS, 16)
    steps = list(range(100_000))
    numbers = torch.zeros(len(steps), HEADS, dtype=torch.float64)
    numbers[77_777, 1] = 500.0
    for start in range(0, len(steps), 1000):
        some = slice(start, start + 1000)
        series.add(steps[some], {"max_score": numbers[some]})
    found = series.read()
    assert 8 <= len(found.steps) <= 16
    assert found.steps[0][0] == 0
    assert found.steps[-1][1] == 99_999
    assert all(now[1] + 1 == after[0] for now, after in zip(found.steps, found.steps[1:], strict=False))
    [point] = [at for at, (first, last) in enumerate(found.steps) if first <= 77_777 <= last]
    assert found.high["max_score"][point].tolist() == [0, 500, 0]  # a spike of one step is not lost
    assert found.high["max_score"].sum() == 500


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-9, 9) | st.just(math.nan), min_size=1, max_size=70), st.integers(2, 9))
def test_a_series_has_the_extremes_and_means_of_its_calls(values, most):
    series = ThinnedSeries(1, most)
    for step, value in enumerate(values):
        series.add([step], {"self_mass": torch.tensor([[value]], dtype=torch.float64)})
    found = series.read()
    assert len(found.steps) <= most
    for at, (first, last) in enumerate(found.steps):
        there = [value for value in values[first : last + 1] if not math.isnan(value)]
        got = [getattr(found, part)["self_mass"][at, 0].item() for part in ("low", "mean", "high")]
        if there:
            assert got == pytest.approx([min(there), sum(there) / len(there), max(there)])
        else:
            assert all(map(math.isnan, got))
        assert found.low["first_mass"][at].isnan().all()  # was never measured


def test_one_thread_adds_while_others_read():
    history = History(keep=50, points=8)
    statistics = [observed(seed) for seed in range(4)]
    failed, done = [], threading.Event()

    def read():
        try:
            while not done.is_set():
                for it in history.statistics().values():
                    assert it.steps == it.queries[0, 0].item() / 12  # 2 samples of 6 queries a call
                for it in history.series().values():
                    assert it.low["self_mass"].shape[0] == len(it.steps)
                assert len(history.records) <= 50
        except BaseException as error:
            failed.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    readers = [threading.Thread(target=read) for _ in range(3)]
    try:
        for reader in readers:
            reader.start()
        for step in range(300):
            history.add([record_of(step, random.choice(statistics))])
    finally:
        done.set()
        for reader in readers:
            reader.join()
        sys.setswitchinterval(interval)
    assert not failed
    assert history.statistics()[Place("layers.0", "self", HEADS)].steps == 300


def test_the_entropy_share_is_one_for_equal_scores_and_zero_for_one_key():
    flat = observe(*torch.zeros(3, 1, HEADS, 8, 4), causal())[1]
    close(head_numbers(flat)["entropy_share"], torch.ones(1, HEADS, dtype=torch.float64))
    q = torch.eye(8).expand(1, HEADS, 8, 8)
    sharp = observe(900 * q, q, q, causal())[1]
    close(head_numbers(sharp)["entropy_share"], torch.zeros(1, HEADS, dtype=torch.float64))


def test_the_entropy_share_divides_by_the_mean_log_of_the_visible_keys():
    q, k, v = torch.randn(3, 1, HEADS, 8, 4, generator=torch.Generator().manual_seed(1)).double()
    scores = (q @ k.transpose(-1, -2) / 2).masked_fill(~torch.ones(8, 8).tril().bool(), -math.inf)
    weights = scores.softmax(-1)
    entropy = -(weights * weights.clamp(min=1e-300).log()).sum(-1).mean(-1)
    expected = entropy / torch.arange(1, 9).double().log().mean()
    close(head_numbers(observe(q, k, v, causal())[1])["entropy_share"], expected)


def test_a_query_that_sees_one_key_has_no_share_of_entropy():
    q, k, v = torch.randn(3, 1, HEADS, 1, 4)
    assert head_numbers(observe(q, k, v)[1])["entropy_share"].isnan().all()


def test_numbers_without_keys_are_nan_and_not_infinite():
    mask = torch.zeros(1, 1, 4, 4, dtype=torch.bool)
    statistics = observe(*torch.randn(3, 1, HEADS, 4, 4), mask, empty_rows="zero", exact_max=True)[1]
    numbers = head_numbers(statistics)
    assert (numbers["empty_fraction"] == 1).all()
    for name in ("max_score", "max_score_at_least", "max_score_at_most", "entropy_share", "self_mass"):
        assert numbers[name].isnan().all(), name


def test_every_number_says_which_way_is_worse():
    statistics = observed(0, rule=causal(), exact_max=True)
    assert list(head_numbers(statistics)) == list(WORSE)
