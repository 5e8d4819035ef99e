"""The picture of a watch: readable without colour, nothing hidden by pooling, a clean terminal after it."""

import io
import math
import sys

import pytest
import torch
from rich.console import Console

from softlookup import SoftlookupError, observe
from softlookup.live.numbers_of_heads import WORSE
from softlookup.live.record import Alarm, Call, Record
from softlookup.live.showing_live import STATISTICS, LiveView
from softlookup.report.watch_view import WatchPicture, colour_of, short_names, watch_renderable

NAN = math.nan


def lines(picture, width=80, height=None, **console):
    out = Console(width=width, file=io.StringIO(), color_system=None, **console)
    out.print(watch_renderable(picture, width=width, height=height), crop=False)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def wide(layers=32, heads=64, **options):
    rows = [(f"model.layers.{layer}.self_attn", [0.95] * heads) for layer in range(layers)]
    return WatchPicture("entropy", rows, scale=(0.0, 1.0), **options)


def cells(lines, label):
    [line] = [line for line in lines if line.strip().startswith(f"{label}  ")]
    return line.strip().split(" ", 1)[1].replace(" ", "")


def test_a_cell_is_the_tenth_of_the_scale_in_which_its_number_lies():
    row = [0.0, 0.099, 0.1, 0.55, 0.999, 1.0]
    drawn = lines(WatchPicture("self mass", [("a.0", row), ("a.1", row)], scale=(0.0, 1.0)))
    assert cells(drawn, "0") == "001599"
    assert "0 to 1 in tenths: 0123456789" in drawn


def test_without_a_scale_it_goes_from_the_smallest_to_the_largest_number():
    drawn = lines(WatchPicture("largest score", [("a.0", [-4.0, 16.0]), ("a.1", [5.9, 6.1])]))
    assert cells(drawn, "0") == "09"
    assert cells(drawn, "1") == "45"
    assert "-4 to 16 in tenths: 0123456789" in drawn


def test_numbers_that_are_none_have_signs_of_their_own_and_do_not_stretch_the_scale():
    drawn = lines(WatchPicture("largest score", [("a.0", [0.0, NAN, math.inf]), ("a.1", [10.0])]))
    assert cells(drawn, "0") == "0.!"
    assert "0 to 10 in tenths: 0123456789   ! infinite   . not measured or NaN" in drawn


def test_equal_numbers_are_drawn():
    drawn = lines(WatchPicture("largest score", [("a.0", [3.5, 3.5]), ("a.1", [3.5])]))
    assert cells(drawn, "0") == "00"
    assert "3.5 to 3.5 in tenths: 0" in drawn


def test_a_wide_model_fits_eighty_columns():
    drawn = lines(wide())
    assert max(map(len, drawn)) <= 80
    assert "heads 0 to 63" in drawn[2]


@pytest.mark.parametrize(("worse", "digit"), [("low", "1"), ("high", "9"), ("", "7")])
def test_pooled_heads_show_the_worst_one_and_say_so(worse, digit):
    picture = wide(heads=128, worse=worse)
    picture.layers[3][1][101] = 0.15 if worse != "high" else 0.99
    for _, row in picture.layers:
        row[100] = 0.15 if worse == "high" else row[100]
    if worse == "":
        picture.layers[3][1][100:102] = [0.5, 1.0]
    drawn = lines(picture)
    assert max(map(len, drawn)) <= 80
    which = {"low": "the lowest", "high": "the highest", "": "the mean"}[worse]
    assert f": a cell is {which} of 2 heads" in drawn[1]
    assert cells(drawn, "3")[50] == digit


def test_infinity_shows_through_pooling():
    picture = wide(heads=128, worse="high")
    picture.layers[3][1][100] = math.inf
    assert cells(lines(picture), "3")[50] == "!"


def test_a_high_model_fits_the_lines_of_a_terminal():
    picture = wide(worse="low", coverage="32 of 32", alarms=["words " * 40] * 9)
    picture.layers[5][1][7] = 0.05
    drawn = lines(picture, height=24)
    assert len(drawn) <= 24
    assert "a cell is the lowest of" in drawn[1]
    assert "layers" in drawn[1]
    assert "0" in [row.split()[1][7] for row in drawn[3:] if "-" in row.split()[0]]


def test_nothing_measured_yet_is_said():
    assert "no call of attention was measured yet" in lines(WatchPicture("entropy", []))


def test_layers_of_different_sizes_stand_below_each_other():
    drawn = lines(WatchPicture("s", [("a.0", [0.5]), ("a.1", [0.5] * 4)], scale=(0, 1)))
    assert (cells(drawn, "0"), cells(drawn, "1")) == ("5", "5555")


@pytest.mark.parametrize(
    ("names", "pattern", "labels"),
    [
        (["h.0.attn", "h.1.attn"], "h.*.attn", ["0", "1"]),
        (["encoder.0.attn", "encoder.1.cross"], "encoder.*", ["0.attn", "1.cross"]),
        (["attn", "attn2"], "", ["attn", "attn2"]),
        (["a.a", "a.a.a"], "a.*", ["a", "a.a"]),
        (["only.one"], "", ["only.one"]),
        ([""], "", ["(the model)"]),
        (["h.0", "h.0"], "h.*", ["0", "0"]),
    ],
)
def test_paths_are_shortened_to_what_differs(names, pattern, labels):
    assert short_names(names) == (pattern, labels)


def test_what_layers_and_alarms_are_called_cannot_steer_the_terminal():
    drawn = "\n".join(
        lines(WatchPicture("s", [("a\x1b[2J", [1.0])], coverage="\x1b[1m", alarms=["\x07 [red]b"]))
    )
    assert "\x1b" not in drawn
    assert "\x07" not in drawn
    assert "[red]b" in drawn


def test_the_last_alarms_are_shown_with_their_number():
    drawn = lines(WatchPicture("s", [], alarms=["one", "two", "three", "four"], alarm_count=17))
    assert drawn[-4:] == ["17 alarms, the last 3:", "  two", "  three", "  four"]


def test_step_and_rate_are_told():
    assert lines(WatchPicture("s", [], step=3, steps_per_second=2.5))[0] == "step 3, 2.5 steps a second"
    assert lines(WatchPicture("s", [], step=3, steps_per_second=0.1))[0] == "step 3, 10 seconds a step"
    assert lines(WatchPicture("s", [], step=3, steps_per_second=0.0))[0] == "step 3"


def luminance(colour):
    linear = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_each_digit_is_lighter_than_the_one_before_and_stands_out_from_its_colour():
    levels = [luminance(colour_of(tenth)) for tenth in range(10)]
    assert levels == sorted(set(levels))
    for tenth, level in enumerate(levels):
        ink = 1.0 if tenth < 5 else 0.0
        contrast = (max(ink, level) + 0.05) / (min(ink, level) + 0.05)
        assert contrast >= 4.5, tenth  # what WCAG asks of text


def record_of(step, layer="h.0", **options):
    q, k, v = torch.randn(3, 2, 4, 8, 4, generator=torch.Generator().manual_seed(step))
    _, statistics = observe(q, k, v, **options)
    return Record(Call(step, layer, 0, "softmax", "self", True, 2, 4, 4, 8, 8), statistics, 8)


ALARM = Alarm("SL903", "scores-exploding", "h.0", 1, 5, 120.0, "head 1 of h.0: scores reach 120")


class Terminal(io.StringIO):
    """A file that is a terminal."""

    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def test_nothing_is_written_where_there_is_no_terminal():
    file = io.StringIO()
    with LiveView(file=file) as view:
        view.update([record_of(0)], [ALARM], "1 of 1")
    assert file.getvalue() == ""


def test_at_most_four_pictures_a_second_are_drawn(a_terminal):
    clock = Clock()
    with LiveView(file=a_terminal, clock=clock) as view:
        begun = a_terminal.getvalue().count("step ")
        for step in range(1000):
            clock.now = step / 100  # 10 seconds
            view.update([record_of(step % 7)])
        drawn = a_terminal.getvalue().count("step ") - begun
    assert 30 <= drawn <= 41
    assert a_terminal.getvalue().count("step ") - begun == drawn + 1  # the last state is drawn at the end


def test_the_picture_holds_the_newest_numbers_of_each_layer(a_terminal):
    clock = Clock()
    with LiveView("first_mass", file=a_terminal, clock=clock) as view:
        view.update([record_of(0), record_of(0, "h.1")], coverage="2 of 2")
        clock.now = 2.0
        newest = record_of(4)
        view.update([newest], [ALARM])
        picture = view.picture()
    assert dict(picture.layers)["h.0"] == newest.statistics.over_batch().first_mass[0].tolist()
    assert [name for name, _ in picture.layers] == ["h.0", "h.1"]
    assert (picture.step, picture.steps_per_second, picture.coverage) == (4, 2.0, "2 of 2")
    assert picture.alarms == ["SL903 scores-exploding, step 5: head 1 of h.0: scores reach 120"]


def test_a_largest_score_that_was_not_asked_for_is_drawn_as_its_bound(a_terminal):
    with LiveView("max_score", file=a_terminal) as view:
        view.update([record_of(0)])
        assert view.picture().title == "largest score, at most"
    with LiveView("max_score", file=a_terminal) as view:
        record = record_of(0, exact_max=True)
        view.update([record])
        assert view.picture().title == "largest score"
        assert view.picture().layers[0][1] == record.statistics.max_score.amax(0).tolist()


def test_a_statistic_that_was_not_measured_is_drawn_as_such(a_terminal):
    with LiveView("forbidden_mass", file=a_terminal) as view:
        view.update([record_of(0)])
        assert all(map(math.isnan, view.picture().layers[0][1]))


HIDDEN, SHOWN = "\x1b[?25l", "\x1b[?25h"


def test_the_terminal_is_restored_after_an_exception(a_terminal):
    before = sys.stdout, sys.stderr

    def train():
        with LiveView(file=a_terminal) as view:
            view.update([record_of(0)])
            assert a_terminal.getvalue().count(HIDDEN) == 1
            raise RuntimeError("of the training")

    with pytest.raises(RuntimeError, match="of the training"):
        train()
    assert a_terminal.getvalue().rindex(SHOWN) > a_terminal.getvalue().rindex(HIDDEN)
    assert (sys.stdout, sys.stderr) == before


def test_what_is_printed_into_a_file_meanwhile_stays_there(a_terminal, monkeypatch):
    file = io.StringIO()
    monkeypatch.setattr(sys, "stdout", file)
    with LiveView(file=a_terminal) as view:
        view.update([record_of(0)])
        sys.stdout.write("loss 0.5\n")
    assert file.getvalue() == "loss 0.5\n"


def test_a_picture_that_fails_ends_the_view_and_not_the_training(a_terminal, monkeypatch):
    with LiveView(file=a_terminal) as view:
        monkeypatch.setattr(view, "picture", lambda: 1 / 0)
        with pytest.warns(RuntimeWarning, match="the live view stopped .ZeroDivisionError"):
            view.update([record_of(0)])
        view.update([record_of(1)])
    assert SHOWN in a_terminal.getvalue()


def test_a_statistic_that_there_is_not_is_refused():
    with pytest.raises(SoftlookupError, match="did you mean entropy_share"):
        LiveView("entropy_shares")


def test_every_statistic_that_can_be_drawn_is_measured():
    assert set(STATISTICS) <= set(WORSE)
