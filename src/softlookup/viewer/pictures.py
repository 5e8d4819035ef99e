"""A map, or the small maps of all heads, as PNG or SVG. Both draw what the page holds, in its colours."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import torch
from torch import Tensor

from softlookup.report.mask_panels import ticks
from softlookup.report.plain_words import printable
from softlookup.report.png_file import png_bytes
from softlookup.report.svg_text import safe, words_at
from softlookup.terms import SoftlookupError
from softlookup.viewer.colours import Rgb, difference_colours, weight_colours
from softlookup.viewer.packing import Held, differences_from, unpacked_bytes, weights_from

_SIDE = 640  # pixels of a large map, about
_SMALL_SIDE, _GAP = 64, 6
_HIDDEN: Rgb = (225, 227, 230)
_PAPER: Rgb = (255, 255, 255)
_TOKENS_SHOWN, _LETTERS = 40, 14
_LEGEND = (0.0, 0.01, 0.1, 0.25, 0.5, 1.0)


class Panel(NamedTuple):
    """One map with its colours. pixels: uint8 [rows, columns, 3]; cell: pixels of a weight on a side."""

    title: str
    pixels: Tensor
    cell: int


def png_of_view(held: Held) -> bytes:
    """Return a PNG file of the head that is opened, or of all heads.

    Raises: SoftlookupError for a trace, which holds no maps.
    """
    rows = _rows_of_panels(held)
    pixels = _sheet(rows)
    lines = [bytes(line) for line in pixels.flatten(1).tolist()]
    facts = held.facts
    words = f"{facts['title']}; {facts['subtitle']}; rows are queries, columns are keys"
    return png_bytes(lines, printable(words + f"; {_what(held)}"))


def svg_of_view(held: Held) -> str:
    """Return an SVG file of the head that is opened, with its axes, or of all heads.

    Raises: SoftlookupError for a trace, which holds no maps.
    """
    rows = _rows_of_panels(held)
    alone = held.facts["open"] is not None
    panels = rows[0][1]
    left, top = (_letters(held, "queries"), _letters(held, "keys") + 74) if alone else (_label(rows), 84)
    pixels = _sheet(rows)
    high, wide = pixels.shape[:2]
    width, height = max(left + wide + 20, 460), top + high + 56
    body = [
        words_at(16, 28, str(held.facts["title"]), "title"),
        words_at(16, 46, str(held.facts["subtitle"])),
    ]
    body.append(words_at(16, 64, f"{panels[0].title}; {_what(held)}" if alone else _what(held)))
    body.append(_image(left, top, pixels))
    if alone:
        body += _axes(held, panels[0], left, top)
    else:
        cell = _SMALL_SIDE + _GAP
        body += [
            words_at(left - 10, top + number * cell + _SMALL_SIDE / 2 + 4, name, anchor="end")
            for number, (name, _) in enumerate(rows)
        ]
        most = max(len(it) for _, it in rows)
        body += [
            words_at(left + head * cell + _SMALL_SIDE / 2, top - 8, str(head), anchor="middle")
            for head in range(most)
        ]
    body += _legend(held, left, top + high + 20)
    label = escape(printable(f"{held.facts['title']}: rows are queries, columns are keys"), quote=True)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{label}">',
            "<style>text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#59626d}"
            ".title{font-weight:600;fill:#1b1f24}image{image-rendering:pixelated}"
            f"</style><rect width='{width}' height='{height}' fill='#fff'/>",
            *body,
            "</svg>\n",
        ]
    )


def _rows_of_panels(held: Held) -> list[tuple[str, list[Panel]]]:
    """Return the panels of each layer: one large one, or all heads as small ones."""
    if held.facts["form"] == "trace":
        raise SoftlookupError(
            "view: a trace becomes no picture.",
            expected="maps",
            got="the numbers of a watch, which hold none",
            hint='to="page.html"',
        )
    if held.facts["open"] is not None:
        number, head = held.facts["open"]
        layer = held.facts["layers"][number]
        return [(layer["name"], [_panel(held, layer, head, "maps", _SIDE)])]
    return [
        (layer["name"], [_panel(held, layer, head, "small", _SMALL_SIDE) for head in range(layer["heads"])])
        for layer in held.facts["layers"]
    ]


def _panel(held: Held, layer: dict[str, Any], head: int, what: str, side: int) -> Panel:
    gaps = "gaps" in layer
    name = {"maps": "gaps", "small": "smallGaps"}[what] if gaps else what
    said = layer[name]
    rows, columns = said["shape"]
    if what == "small":  # those of a layer lie together
        codes = unpacked_bytes(held.packed[said["id"]]).reshape(-1, rows, columns)[head]
    else:
        codes = unpacked_bytes(held.packed[f"{said['id']}-{head}"]).reshape(rows, columns)
    step = torch.tensor(said["steps"][head])
    if gaps:
        most = max(max(it[name]["tops"]) for it in held.facts["layers"]) or 1.0
        numbers = differences_from(codes, step) / most
        place = 127.5 * (1 + numbers.abs().sqrt() * numbers.sign())
        colours = torch.tensor(difference_colours(), dtype=torch.uint8)
    else:
        place = 255 * weights_from(codes, step).clamp(max=1.0).sqrt()
        colours = torch.tensor(weight_colours(), dtype=torch.uint8)
    pixels = colours[place.round().long()]
    mask = layer["mask"]
    if what == "maps" and mask and mask["id"]:
        seen = unpacked_bytes(held.packed[mask["id"]]).reshape(mask["heads"], rows, columns)
        hidden = seen[head if mask["heads"] > 1 else 0] == 0
        pixels[hidden & (codes == (128 if gaps else 0))] = torch.tensor(_HIDDEN, dtype=torch.uint8)
    cell = max(1, side // max(rows, columns))
    pixels = pixels.repeat_interleave(cell, 0).repeat_interleave(cell, 1)
    return Panel(f"{layer['name'] or 'the model'}, head {head}", pixels, cell)


def _sheet(rows: Sequence[tuple[str, Sequence[Panel]]]) -> Tensor:
    """Return uint8 [height, width, 3]: all panels on paper, small ones of one size."""
    if len(rows) == 1 and len(rows[0][1]) == 1:
        return rows[0][1][0].pixels
    cell = _SMALL_SIDE + _GAP
    across = max(len(panels) for _, panels in rows)
    sheet = torch.tensor(_PAPER, dtype=torch.uint8).repeat(len(rows) * cell, across * cell, 1)
    for down, (_, panels) in enumerate(rows):
        for at, panel in enumerate(panels):
            high, wide = panel.pixels.shape[:2]
            sheet[down * cell : down * cell + high, at * cell : at * cell + wide] = panel.pixels
    return sheet


def _axes(held: Held, panel: Panel, left: int, top: int) -> list[str]:
    """Return the words beside a map: tokens where they fit, positions where not."""
    high, wide = panel.pixels.shape[0] // panel.cell, panel.pixels.shape[1] // panel.cell
    body = []
    for name, count in (("queries", high), ("keys", wide)):
        tokens = _tokens(held, name)
        shown = list(enumerate(tokens[:count])) if tokens else ticks(count, 1, apart=40 / panel.cell)
        for at, label in shown:
            place = (at + 0.5) * panel.cell + 4
            if name == "queries":
                body.append(words_at(left - 7, top + place, _cut(str(label)), anchor="end"))
            else:
                turned = f"translate({left + place:g} {top - 7}) rotate(-60)"
                body.append(f'<text transform="{turned}">{safe(_cut(str(label)))}</text>')
    return body


def _tokens(held: Held, name: str) -> list[str]:
    """Return the tokens of the open layer, where they are few enough to stand beside its map."""
    layer = held.facts["layers"][held.facts["open"][0]]
    tokens = held.facts["tokens"][layer[name]] if layer[name] >= 0 else []
    return tokens if len(tokens) <= _TOKENS_SHOWN and layer["form"] == "whole" else []


def _letters(held: Held, name: str) -> int:
    longest = max((len(_cut(it)) for it in _tokens(held, name)), default=5)
    return 24 + 7 * longest


def _label(rows: Sequence[tuple[str, Any]]) -> int:
    return 34 + 7 * max(len(name) for name, _ in rows)


def _what(held: Held) -> str:
    if any("gaps" in it for it in held.facts["layers"]):
        return "the other run's weights less these"
    return "weights on a scale of square roots" if held.facts["open"] else "largest weight of each block"


def _legend(held: Held, left: int, top: int) -> list[str]:
    gaps = any("gaps" in it for it in held.facts["layers"])
    colours = difference_colours() if gaps else weight_colours()
    strip = torch.tensor(colours, dtype=torch.uint8)[None].repeat(10, 1, 1)
    body = [_image(left, top, strip)]
    if gaps:
        name = "gaps" if held.facts["open"] else "smallGaps"
        most = max(max(it[name]["tops"]) for it in held.facts["layers"])
        marks = [(0.0, f"-{most:.2g}"), (0.5, "0"), (1.0, f"+{most:.2g}")]
    else:
        marks = [(math.sqrt(it), f"{it:g}") for it in _LEGEND]
    return body + [words_at(left + 255 * at, top + 24, words, anchor="middle") for at, words in marks]


def _image(x: float, y: float, pixels: Tensor) -> str:
    lines = [bytes(line) for line in pixels.flatten(1).tolist()]
    data = base64.b64encode(png_bytes(lines, "")).decode("ascii")
    high, wide = pixels.shape[:2]
    return f'<image x="{x:g}" y="{y:g}" width="{wide}" height="{high}" href="data:image/png;base64,{data}"/>'


def _cut(token: str) -> str:
    return token if len(token) <= _LETTERS else token[: _LETTERS - 1] + "…"
