"""What a watch sees, drawn in a terminal: layers x heads as a heat map, and the alarms below it.

A cell is a digit, a tenth of the scale, on a colour from dark blue to yellow whose lightness only grows: it
reads the same without colour and for the colour-blind. What is too wide or too high is pooled, and that is
said.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Group, RenderableType
from rich.text import Text

from softlookup.report.plain_words import printable

_DARK, _MIDDLE, _LIGHT = (0, 32, 76), (124, 123, 120), (255, 234, 70)  # the ends and middle of the colours
_TENTHS = 10
_NOT_FINITE, _NOT_MEASURED = "!", "."
_LABEL = 26  # columns at most
_LINES_OF_ALARMS = 3


@dataclass(frozen=True)
class WatchPicture:
    """What is drawn of a watch.

    title: the statistic in words
    layers: path of each layer, and the number of each of its heads; NaN where it was not measured
    worse: which way is bad, so that pooling heads hides nothing: "low", "high", or "" for neither
    scale: what the digits 0 and 9 begin and end with; None: the smallest and the largest number drawn
    alarms: the last ones, oldest first;  alarm_count: all of them
    """

    title: str
    layers: Sequence[tuple[str, Sequence[float]]]
    worse: Literal["low", "high", ""] = ""
    scale: tuple[float, float] | None = None
    step: int = 0
    steps_per_second: float | None = None
    coverage: str = ""
    alarms: Sequence[str] = ()
    alarm_count: int = 0


def watch_renderable(picture: WatchPicture, *, width: int = 80, height: int | None = None) -> RenderableType:
    """Return the picture in so many columns, and at most so many lines where a height is given.

    >>> from rich.console import Console
    >>> picture = WatchPicture("self mass", [("h.0", [0.0, 0.55]), ("h.1", [1.0])], scale=(0, 1), step=3)
    >>> drawn = watch_renderable(picture, width=40)
    >>> Console(width=40, color_system=None).print(drawn)  # doctest: +NORMALIZE_WHITESPACE
    step 3
    self mass
    h.*  heads 0 to 1
    0  0 5
    1  9
    0 to 1 in tenths: 0123456789
    """
    head = _heading(picture)
    foot = [*_legend(picture), *_coverage(picture), *_alarms(picture, width)]
    room = None if height is None else max(1, height - len(head) - len(foot) - 2)
    return Group(*head, *_heat_map(picture, width, room), *foot)


def _heading(picture: WatchPicture) -> list[Text]:
    rate = picture.steps_per_second
    pace = ""
    if rate is not None and rate > 0:
        pace = f", {rate:.3g} steps a second" if rate >= 1 else f", {1 / rate:.3g} seconds a step"
    return [Text(f"step {picture.step}{pace}", style="bold")]


def _heat_map(picture: WatchPicture, width: int, room: int | None) -> list[Text]:
    """Return the title, which tells what one cell is, the numbers of the heads, and a line for each layer."""
    if not picture.layers:
        return [Text(picture.title), Text("no call of attention was measured yet")]
    pattern, labels = short_names([name for name, _ in picture.layers])
    together = -(-len(labels) // room) if room else 1  # layers in one line
    if together > 1:
        labels = _ranges(labels, together)
    column = min(_LABEL, max(map(len, labels)))
    heads = max(len(values) for _, values in picture.layers)
    cell, per_cell = _cell(heads, width - column - 2)
    low, high = _scale(picture)
    lines = [
        _clip(picture.title + _pooled_words(picture.worse, per_cell, together), width),
        _clip(f"{pattern}  heads 0 to {heads - 1}".strip(), width),
    ]
    rows = [values for _, values in picture.layers]
    for label, start in zip(labels, range(0, len(rows), together), strict=True):
        line = Text(_middle_cut(label, column).rjust(column) + "  ")
        for value in _pool(rows[start : start + together], per_cell, picture.worse):
            line.append_text(_mark(value, low, high, cell))
        lines.append(line)
    return lines


def _cell(heads: int, room: int) -> tuple[int, int]:
    """Return how many columns a cell has, and how many heads are in it: the fewest heads that fit."""
    if 2 * heads <= room:
        return 2, 1
    return 1, max(1, -(-heads // max(1, room)))


def _pool(rows: Sequence[Sequence[float]], per_cell: int, worse: str) -> list[float]:
    """Return one number a cell, out of the heads in it of the layers in one line."""
    longest = max(map(len, rows))
    return [
        _one_of([value for row in rows for value in row[start : start + per_cell]], worse)
        for start in range(0, longest, per_cell)
    ]


def _one_of(values: Sequence[float], worse: str) -> float:
    infinite = [value for value in values if math.isinf(value)]
    there = [value for value in values if math.isfinite(value)]
    if infinite:
        return infinite[0]
    if not there:
        return math.nan
    return {"low": min, "high": max}[worse](there) if worse else sum(there) / len(there)


def _pooled_words(worse: str, per_cell: int, together: int) -> str:
    if per_cell * together == 1:
        return ""
    which = {"low": "the lowest", "high": "the highest"}.get(worse, "the mean")
    parts = [f"{per_cell} heads"] * (per_cell > 1) + [f"{together} layers"] * (together > 1)
    return f": a cell is {which} of {' x '.join(parts)}"


def _scale(picture: WatchPicture) -> tuple[float, float]:
    if picture.scale is not None:
        return picture.scale
    there = [value for _, values in picture.layers for value in values if math.isfinite(value)]
    return (min(there), max(there)) if there else (0.0, 0.0)


def _mark(value: float, low: float, high: float, cell: int) -> Text:
    """Return a cell: a digit on its colour, or a sign that is none."""
    if math.isnan(value):
        return Text(_NOT_MEASURED.ljust(cell), style="dim")
    if math.isinf(value):
        return Text(_NOT_FINITE.ljust(cell), style="bold red")
    share = (value - low) / (high - low) if high > low else 0.0
    tenth = min(_TENTHS - 1, max(0, int(share * _TENTHS)))
    return Text(str(tenth).ljust(cell), style=_style(tenth))


def _style(tenth: int) -> str:
    """Return white or black on the colour of a digit: named colours are what a theme makes of them."""
    red, green, blue = colour_of(tenth)
    return f"#{'ffffff' if tenth < _TENTHS // 2 else '000000'} on #{red:02x}{green:02x}{blue:02x}"


def colour_of(tenth: int) -> tuple[int, int, int]:
    """Return red, green and blue of a digit: from dark blue over grey to yellow, lighter with each.

    >>> colour_of(0), colour_of(9)
    ((0, 32, 76), (255, 234, 70))
    """
    place = 2 * tenth / (_TENTHS - 1)
    start, end = (_DARK, _MIDDLE) if place <= 1 else (_MIDDLE, _LIGHT)
    share = place if place <= 1 else place - 1
    red, green, blue = (round(a + share * (b - a)) for a, b in zip(start, end, strict=True))
    return red, green, blue


def _legend(picture: WatchPicture) -> list[Text]:
    """Return what the digits mean, in numbers, and the signs that are drawn."""
    values = [value for _, numbers in picture.layers for value in numbers]
    if not values:
        return []
    low, high = _scale(picture)
    span = high - low if high > low else abs(low)
    line = Text(f"{_number(low, span)} to {_number(high, span)} in tenths: ")
    for tenth in range(_TENTHS if high > low else 1):
        line.append(str(tenth), style=_style(tenth))
    if any(math.isinf(value) for value in values):
        line.append(f"   {_NOT_FINITE} infinite")
    if any(math.isnan(value) for value in values):
        line.append(f"   {_NOT_MEASURED} not measured or NaN")
    return [line]


def _number(value: float, span: float) -> str:
    """Return a number with as many digits as tell tenths of the span apart."""
    digits = min(12, max(0, 2 - math.floor(math.log10(span)))) if span > 0 else 3
    text = f"{value:.{digits}f}"
    return "0" if float(text) == 0 else text.rstrip("0").rstrip(".") if "." in text else text


def _coverage(picture: WatchPicture) -> list[Text]:
    return [Text(printable(picture.coverage))] if picture.coverage else []


def _alarms(picture: WatchPicture, width: int) -> list[Text]:
    """Return the last alarms, two lines each at most, and how many there were."""
    if not picture.alarms:
        return []
    shown = picture.alarms[-_LINES_OF_ALARMS:]
    count = max(picture.alarm_count, len(picture.alarms))
    words = "1 alarm" if count == 1 else f"{count} alarms"
    if count > len(shown):
        words += f", the last {len(shown)}"
    lines = [Text(words + ":", style="bold red")]
    for it in shown:
        wrapped = textwrap.wrap(printable(it), max(10, width - 4)) or [""]
        lines.append(Text(f"  {wrapped[0]}"))
        lines += [_clip(f"    {' '.join(wrapped[1:])}", width)] * (len(wrapped) > 1)
    return lines


def short_names(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return what paths of layers have in common, with * for the rest, and the rest of each.

    >>> short_names(["model.layers.0.attn", "model.layers.10.attn"])
    ('model.layers.*.attn', ['0', '10'])
    >>> short_names(["encoder.0.attn", "decoder.0.cross"])
    ('', ['encoder.0.attn', 'decoder.0.cross'])
    """
    parts = [printable(name or "(the model)").split(".") for name in names]
    most = min(map(len, parts)) - 1  # something has to stay
    before = _common([path[:most] for path in parts])
    after = _common([path[::-1][: most - before] for path in parts])
    rest = [".".join(path[before : len(path) - after]) for path in parts]
    if before + after == 0 or len(names) == 1:
        return "", [".".join(path) for path in parts]
    first = parts[0]
    return ".".join([*first[:before], "*", *first[len(first) - after :]]), rest


def _common(paths: Sequence[Sequence[str]]) -> int:
    """Return how many parts all paths begin with."""
    count = 0
    for column in zip(*paths, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count


def _ranges(labels: Sequence[str], together: int) -> list[str]:
    """Return one label for each line of several layers: the first and the last."""
    starts = range(0, len(labels), together)
    groups = [labels[start : start + together] for start in starts]
    return [group[0] if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups]


def _middle_cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    head = (width - 2) // 2
    return f"{text[:head]}..{text[len(text) - (width - 2 - head) :]}"


def _clip(text: str, width: int) -> Text:
    return Text(text if len(text) <= width else f"{text[: width - 2]}..", no_wrap=True, overflow="crop")
