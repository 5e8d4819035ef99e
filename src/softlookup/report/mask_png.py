"""A mask as a PNG file: the cells alone, one panel beside the other. The words stand in its description."""

from __future__ import annotations

from softlookup.report.mask_panels import EMPTY, FULL, PARTLY, MaskPanel, MaskPicture
from softlookup.report.png_file import png_bytes

_GAP, _WIDEST = 12, 384  # pixels: between panels, and of a panel
_NOTHING, _BLIND = 0, 4
_PALETTE = bytes.fromhex("ffffff" "3b82c4" "9cc3e6" "e6e8eb" "d9730d")  # fmt: skip
_COLOURS = {FULL: 1, PARTLY: 2, EMPTY: 3}


def png_of(picture: MaskPicture) -> bytes:
    """Return the bytes of the file."""
    rows, columns = len(picture.panels[0].rows), len(picture.panels[0].rows[0])
    cell = max(4, min(24, _WIDEST // max(rows, columns)))
    panels = [_pixels(panel, cell) for panel in picture.panels]
    gap = bytes([_NOTHING]) * _GAP
    lines = [gap + gap.join(side_by_side) + gap for side_by_side in zip(*panels, strict=True)]
    empty = [bytes([_NOTHING]) * len(lines[0])] * _GAP
    lines = [*empty, *lines, *empty]
    words = f"{picture.heading}; rows are queries, columns are keys, T_q = {picture.q_len}, "
    words = "; ".join([words + f"T_k = {picture.k_len}", *picture.notes()])
    return png_bytes(lines, words, _PALETTE)


def _pixels(panel: MaskPanel, cell: int) -> list[bytes]:
    """Return the lines of one panel; a thin line stands between cells, and a bar at rows that see no key."""
    lines: list[bytes] = []
    for number, row in enumerate(panel.rows):
        line = b"".join(bytes([_COLOURS[mark]]) * (cell - 1) + b"\0" for mark in row)
        line += bytes([_BLIND if number in panel.blind else _NOTHING]) * 4
        lines += [line] * (cell - 1) + [bytes([_NOTHING]) * len(line)]
    return lines
