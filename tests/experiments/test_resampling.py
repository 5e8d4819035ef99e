"""The statistics: against tables and other ways to compute them, and honest where there is little to say."""

import math
from itertools import product

import pytest
import torch

from softlookup import SoftlookupError
from softlookup.experiments.ranking import average_ranks, kendall, shuffled_correlations, spearman
from softlookup.experiments.resampling import (
    Resampling,
    bootstrap_interval,
    estimate,
    sign_flip_p_value,
)


def test_one_input_has_no_interval_and_no_p_value_and_the_words_say_so():
    found = estimate([1.3])
    assert found.interval is None
    assert found.p_value is None
    assert found.how == "1 input: no interval at 95 %, which needs at least 6"
    assert "no p-value" in found.p_how


@pytest.mark.parametrize(("level", "fewest"), [(0.5, 2), (0.9, 5), (0.95, 6), (0.99, 8)])
def test_an_interval_needs_as_many_values_as_its_level_asks_for(level, fewest):
    how = Resampling(level=level)
    values = [0.1, 0.5, 0.2, 0.9, 0.4, 0.3, 0.8, 0.7]
    assert bootstrap_interval(values[:fewest], how) is not None
    assert bootstrap_interval(values[: fewest - 1], how) is None


def test_the_interval_is_as_wide_as_students_where_values_are_normal():
    values = torch.randn(12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    low, high = bootstrap_interval(values.tolist())
    student = 2.201 * float(values.std()) / math.sqrt(12)  # t for 11 degrees of freedom, from a table
    assert high - low == pytest.approx(2 * student, rel=0.15)


def test_the_interval_leans_to_the_long_tail():
    values = torch.linspace(0.02, 0.98, 20, dtype=torch.float64)
    values = -(1 - values).log()  # quantiles of an exponential distribution
    low, high = bootstrap_interval(values.tolist())
    mean = float(values.mean())
    assert high - mean > 1.2 * (mean - low)


@pytest.mark.long
@pytest.mark.parametrize("n", [6, 10, 30])
def test_intervals_hold_the_mean_as_often_as_they_say(n):
    hits = 0
    for seed in range(500):
        values = torch.randn(n, generator=torch.Generator().manual_seed(seed)).tolist()
        low, high = bootstrap_interval(values, Resampling(resamples=1000))
        hits += low <= 0 <= high
    assert 0.92 <= hits / 500 <= 0.98


def test_the_same_values_give_the_same_interval_and_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    values = torch.arange(30.0).tolist()
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval(values) != bootstrap_interval(values, Resampling(seed=1))
    sign_flip_p_value(values)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_alike_values_have_an_interval_without_width():
    assert bootstrap_interval([0.25] * 7) == (0.25, 0.25)


@pytest.mark.parametrize("values", [[0.4, -0.1, 0.9, 1.1, 0.2], [1.0, 1.0, -1.0], [2.0, 3.0]])
def test_few_values_have_the_p_value_of_all_sign_flips(values):
    far = abs(sum(values)) - 1e-12
    flips = [
        abs(sum(s * it for s, it in zip(signs, values, strict=True))) >= far
        for signs in product((-1, 1), repeat=len(values))
    ]
    assert sign_flip_p_value(values)[0] == pytest.approx(sum(flips) / len(flips))


def test_many_values_are_flipped_at_random_and_the_p_value_is_never_zero():
    p, how = sign_flip_p_value([1.0 + i / 100 for i in range(40)])
    assert p == pytest.approx(1 / 10_001)
    assert "random sign flips" in how


def test_a_mean_of_zero_is_far_from_significant():
    assert sign_flip_p_value([1.0, -1.0, 2.0, -2.0, 0.5, -0.5])[0] == 1.0


@pytest.mark.parametrize(
    ("values", "words"), [([], "at least one value"), ([1.0, math.nan], "nan for input 1")]
)
def test_values_that_have_no_mean_are_refused(values, words):
    with pytest.raises(SoftlookupError, match=words):
        estimate(values)


@pytest.mark.parametrize("level", [0.2, 1.0, math.nan])
def test_a_level_that_is_none_is_refused(level):
    with pytest.raises(SoftlookupError, match="the level of an interval"):
        Resampling(level=level)


def test_ties_share_their_rank():
    assert average_ranks(torch.tensor([0.3, 0.1, 0.3, 0.3])).tolist() == [3.0, 1.0, 3.0, 3.0]


def test_correlations_with_ties_are_those_of_the_definitions():
    a = torch.tensor([1.0, 2.0, 2.0, 3.0, 5.0])
    b = torch.tensor([2.0, 1.0, 4.0, 4.0, 4.0])
    ranks_a, ranks_b = [1, 2.5, 2.5, 4, 5], [2, 1, 4, 4, 4]
    expected = float(torch.corrcoef(torch.tensor([ranks_a, ranks_b], dtype=torch.float64))[0, 1])
    assert float(spearman(a, b)) == pytest.approx(expected)
    # of 10 pairs: 5 agree, 1 disagrees, 1 is tied in a and 3 in b
    assert float(kendall(a, b)) == pytest.approx((5 - 1) / math.sqrt(9 * 7))


def test_what_does_not_vary_has_no_correlation():
    assert math.isnan(float(spearman(torch.ones(4), torch.arange(4.0))))
    assert math.isnan(float(kendall(torch.ones(4), torch.arange(4.0))))


def test_shuffled_weights_correlate_with_nothing_on_average():
    a, b = torch.arange(9.0), torch.arange(9.0) ** 2
    null = shuffled_correlations([a, a], [b, b], draws=4000, seed=0)
    assert abs(float(null.mean())) < 0.02
    assert float(null.std()) == pytest.approx(1 / math.sqrt(2 * 8), rel=0.06)  # of n - 1, for each of two
