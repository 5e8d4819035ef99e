"""A mask drawn in a terminal: a ruler of keys, and a row for each query or block of queries."""

from __future__ import annotations

from collections.abc import Iterator

from softlookup.report.mask_panels import MaskPanel, MaskPicture, longest_label, ticks

_CELL = 2  # characters: the mark and a blank


def text_of(picture: MaskPicture) -> str:
    """Return the drawing: ``1`` may look, ``.`` hidden, and ``+`` some of a block.

    >>> print(text_of(MaskPicture("", (MaskPanel("", ("1.", ".."), frozenset({1})),), 2, 2)))
    query   key 0 1
        0       1 .
        1       . .  <- sees no key
    """
    lines = [line for panel in picture.panels for line in _panel(panel, picture)]
    said = ["1 all visible, + some, . none"] * picture.in_blocks
    return "\n".join([*lines, *(f"({note})" for note in [", ".join([*picture.notes(), *said])] if note)])


def _panel(panel: MaskPanel, picture: MaskPicture) -> Iterator[str]:
    queries, keys = picture.block
    if panel.title:
        yield panel.title
    ruler = ""
    cells = len(panel.rows[0])
    for cell, label in ticks(cells, keys, apart=(longest_label(cells, keys) + 1) / _CELL):
        ruler = ruler.ljust(cell * _CELL) + label
    width = max(5, len(str(picture.q_len)))
    yield f"{'query'.ljust(width)}   key {ruler}"
    for number, row in enumerate(panel.rows):
        words = "some queries see no key" if queries > 1 else "sees no key"
        blind = f"  <- {words}" if number in panel.blind else ""
        yield f"{str(number * queries).rjust(width)}       {' '.join(row)}{blind}"
