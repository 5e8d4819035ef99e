"""The scales read in grey and for the colour-blind: lightness tells the order, in steps that look alike."""

import itertools

import pytest

from softlookup.viewer.colours import STEPS, as_hex, difference_colours, lightness, weight_colours


def light(colours):
    return [lightness(it) for it in colours]


def test_weights_grow_darker_with_every_step_and_span_most_of_the_lightness():
    values = light(weight_colours())
    assert len(values) == STEPS
    assert all(a >= b for a, b in itertools.pairwise(values))
    assert values[0] > 95
    assert values[-1] < 20


def test_no_step_of_weights_is_much_larger_than_the_others():
    values = light(weight_colours())
    steps = [a - b for a, b in itertools.pairwise(values)]
    assert max(steps) < 3 * (values[0] - values[-1]) / len(steps)


@pytest.mark.parametrize("dark", [False, True])
def test_differences_are_as_light_on_both_sides_and_grow_away_from_the_middle(dark):
    values = light(difference_colours(dark=dark))
    sign = -1 if dark else 1
    for half in (values[127::-1], values[128:]):
        assert all(sign * (a - b) >= -0.4 for a, b in itertools.pairwise(half))
        assert sign * (half[0] - half[-1]) > 40
    assert all(abs(a - b) < 6 for a, b in zip(values, reversed(values), strict=True))


def seen_without_green(colour):
    """What is left of a colour for who has no cones for green: red and green as one, in linear light
    (Viénot, Brettel and Mollon, 1999)."""
    red, green, blue = ((it / 255) ** 2.2 for it in colour)
    both = 0.2927 * red + 0.7073 * green
    return both, -0.0223 * red + 0.0223 * green + blue


@pytest.mark.parametrize("dark", [False, True])
def test_the_two_ends_of_differences_stay_apart_without_red_and_green(dark):
    less, more = (seen_without_green(difference_colours(dark=dark)[at]) for at in (20, 235))
    assert less[1] > 2 * less[0]  # blue
    assert more[0] > 2 * more[1]  # orange


def test_colours_are_written_as_six_digits_each():
    assert as_hex([(0, 128, 255)]) == "0080ff"
    assert len(as_hex(weight_colours())) == 6 * STEPS
