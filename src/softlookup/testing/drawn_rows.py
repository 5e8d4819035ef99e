"""One row of a mask in words and as a drawing with a ruler, as a failed assertion shows it."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

_SHOWN = 24  # keys of a row that are drawn
_RUNS = 6  # runs of keys that are listed


def listed(row: Tensor) -> str:
    """Return in words which keys of bool [T_k] are True.

    >>> import torch
    >>> listed(torch.tensor([True, True, True, False, True]))
    'keys 0 to 2, 4'
    """
    keys = row.nonzero()[:, 0].tolist()
    if not keys:
        return "no key"
    runs: list[list[int]] = []
    for key in keys:
        if runs and key == runs[-1][1] + 1:
            runs[-1][1] = key
        else:
            runs.append([key, key])
    shown = [f"{a}" if a == b else f"{a} to {b}" for a, b in runs[:_RUNS]]
    more = [f"... ({len(keys)} keys)"] * (len(runs) > _RUNS)
    return ("key " if len(keys) == 1 else "keys ") + ", ".join(shown + more)


def drawn_row(row: Tensor, *, mark: Sequence[int], label: str) -> list[str]:
    """Return lines: the numbers of the keys, ``1`` for a visible one and ``.`` for a hidden one, and marks.

    row: bool [T_k]; of a long one the part around the first mark is drawn
    mark: keys that get a ``^``, on a line that begins with ``label``

    >>> import torch
    >>> print("\\n".join(drawn_row(torch.tensor([True, False, True]), mark=[1], label="wrong")))
    key    0 1 2
    sees   1 . 1
    wrong    ^
    """
    start = max(0, min(min(mark, default=0) - _SHOWN // 2, len(row) - _SHOWN))
    keys = range(start, min(start + _SHOWN, len(row)))
    width = len(str(keys[-1])) if keys else 1
    margin = max(len(label), 5) + 2
    cells = {
        "key": [str(key) for key in keys],
        "sees": ["1" if seen else "." for seen in row[keys.start : keys.stop].tolist()],
        label: ["^" if key in mark else "" for key in keys],
    }
    more = " ..." * (keys.stop < len(row))
    return [
        (name.ljust(margin) + " ".join(cell.rjust(width) for cell in row_cells)).rstrip()
        + more * (name == "key")
        for name, row_cells in cells.items()
    ]
