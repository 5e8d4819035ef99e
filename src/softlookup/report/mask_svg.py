"""A mask as an SVG file: labelled axes, a legend, and a small picture for each sample and head.

The colours are of middle brightness and the background is none, so that it reads on light
pages and dark ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby

from softlookup.report.mask_panels import EMPTY, FULL, PARTLY, MaskPanel, MaskPicture, longest_label, ticks
from softlookup.report.plain_words import printable
from softlookup.report.svg_text import words_at

_GREY, _VISIBLE, _BLIND = "#7d8590", "#3b82c4", "#d9730d"
_MARGIN, _LETTER, _LINE = 14, 7, 14  # pixels
_TOP, _GAP = 58, 26  # room for the words around one panel
_WIDEST, _LARGEST, _SMALLEST = 240, 26, 5  # of a panel, of a cell
_WIDEST_ALONE = 420
_PANELS_ABREAST = 3
_STYLE = (
    f"text{{font:12px ui-sans-serif,system-ui,sans-serif;fill:{_GREY}}}.title{{font-weight:600}}"
    f".full{{fill:{_VISIBLE}}}.partly{{fill:{_VISIBLE};fill-opacity:.45}}"
    f".none{{fill:{_GREY};fill-opacity:.14}}.blind{{fill:{_BLIND}}}"
    f".grid{{fill:none;stroke:{_GREY};stroke-opacity:.45;stroke-width:.6}}"
)
_CLASSES = {FULL: "full", PARTLY: "partly", EMPTY: "none"}


def svg_of(picture: MaskPicture) -> str:
    """Return the text of the file."""
    columns, rows = len(picture.panels[0].rows[0]), len(picture.panels[0].rows)
    widest = _WIDEST if len(picture.panels) > 1 else _WIDEST_ALONE
    cell = max(_SMALLEST, min(_LARGEST, widest // max(columns, rows)))
    left = 34 + _LETTER * longest_label(rows, picture.block[0])
    across = min(len(picture.panels), _PANELS_ABREAST)
    # No narrower than the words above a panel, which name its axis of keys.
    wide, tall = left + max(columns * cell + _GAP, 120), _TOP + rows * cell + _GAP
    heading = _shortened(printable(picture.heading), 100)
    sizes = f"T_q = {picture.q_len}, T_k = {picture.k_len}"
    width = max(2 * _MARGIN + across * wide, 2 * _MARGIN + _LETTER * len(heading), 440)
    down = -(-len(picture.panels) // across)
    height = 2 * _MARGIN + 36 + down * tall + 24
    body = [
        words_at(_MARGIN, _MARGIN + 12, heading, "title"),
        words_at(_MARGIN, _MARGIN + 30, "; ".join([sizes, *picture.notes()])),
    ]
    for number, panel in enumerate(picture.panels):
        x, y = _MARGIN + (number % across) * wide + left, _MARGIN + 36 + (number // across) * tall + _TOP
        body += _panel(panel, picture, (x, y), cell)
    body += _legend(picture, _MARGIN, height - _MARGIN - 12)
    label = escape(f"{heading}: rows are queries, columns are keys, {sizes}", quote=True)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{label}">',
            f"<style>{_STYLE}</style>",
            *body,
            "</svg>\n",
        ]
    )


def _panel(panel: MaskPanel, picture: MaskPicture, corner: tuple[int, int], cell: int) -> Iterator[str]:
    x, y = corner
    rows, columns = len(panel.rows), len(panel.rows[0])
    yield words_at(x, y - 38, panel.title, "title") if panel.title else ""
    yield words_at(x, y - 20, "key")
    queries, keys = picture.block
    beside, middle = x - 18 - _LETTER * longest_label(rows, queries), y + rows * cell / 2
    yield f'<text transform="translate({beside} {middle:g}) rotate(-90)" text-anchor="middle">query</text>'
    for at, label in ticks(columns, keys, apart=_LETTER * (longest_label(columns, keys) + 1) / cell):
        yield words_at(x + at * cell + cell / 2, y - 5, label, anchor="middle")
    for at, label in ticks(rows, queries, apart=_LINE / cell):
        yield words_at(x - 7, y + at * cell + cell / 2 + 4, label, anchor="end")
    for number, row in enumerate(panel.rows):
        at = 0
        for mark, run in groupby(row):  # one rectangle for cells that are alike
            length = len(list(run))
            yield _box(_CLASSES[mark], x + at * cell, y + number * cell, length * cell, cell)
            at += length
        if number in panel.blind:
            yield _box("blind", x + columns * cell + 3, y + number * cell, 4, cell)
    lines = [f"M{x} {y + n * cell}h{columns * cell}" for n in range(rows + 1)]
    lines += [f"M{x + n * cell} {y}v{rows * cell}" for n in range(columns + 1)]
    yield f'<path class="grid" d="{"".join(lines)}"/>'


def _legend(picture: MaskPicture, x: int, y: int) -> Iterator[str]:
    words = {"full": "may look", "none": "hidden"}
    if picture.in_blocks:
        words = {"full": "all may look", "partly": "some may look", "none": "all hidden"}
    if picture.some_blind:
        words["blind"] = "a query that sees no key"
    for name, said in words.items():
        yield _box(name, x, y, 12, 12)
        yield words_at(x + 18, y + 10, said)
        x += 36 + _LETTER * len(said)


def _box(name: str, x: int, y: int, width: int, height: int) -> str:
    return f'<rect class="{name}" x="{x}" y="{y}" width="{width}" height="{height}"/>'


def _shortened(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 3] + "..."
