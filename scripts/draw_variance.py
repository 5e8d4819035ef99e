"""Draw the experiment of lesson 2: how far dot products spread before and after the scale.

4096 pairs of queries and keys of unit variance, d_k = 64. The colours are of middle brightness and the
background is none, so that the picture reads on a light page and on a dark one.
"""

from __future__ import annotations

import math
from pathlib import Path

import torch

PICTURE = Path(__file__).parent.parent / "docs" / "images" / "variance.svg"

_SAMPLES, _D_K = 4096, 64
_REACH, _BINS = 32, 64  # one bar a unit, from -32 to 32
_WIDTH, _TALL, _LEFT = 480, 120, 12
_GREY, _BEFORE, _AFTER = "#7d8590", "#d9730d", "#3b82c4"


def measured() -> tuple[torch.Tensor, torch.Tensor]:
    """Return the dot products of random pairs (samples,), before and after the scale."""
    make = torch.Generator().manual_seed(64)
    q, k = (torch.randn(_SAMPLES, _D_K, generator=make, dtype=torch.float64) for _ in range(2))
    dots = (q * k).sum(dim=-1)
    return dots, dots / math.sqrt(_D_K)


def picture() -> str:
    """Return the picture: two histograms over one axis."""
    before, after = measured()
    panels = [
        *_panel(before, f"q · k,  variance {before.var().item():.1f}", _BEFORE, top=30),
        *_panel(after, f"q · k / √{_D_K},  variance {after.var().item():.2f}", _AFTER, top=210),
    ]
    ticks = [_text(_x(tick), 350, str(tick), "middle") for tick in range(-_REACH + 8, _REACH, 8)]
    words = f"Dot products of {_SAMPLES} random pairs, d_k = {_D_K}: before the scale they spread over about "
    words += "-24 to 24, after it over about -3 to 3."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} 362" width="{_WIDTH}"',
            f'     role="img" aria-label="{words}"',
            '     font-family="system-ui, sans-serif" font-size="15">',
            *panels,
            *ticks,
            "</svg>",
            "",
        ]
    )


def _panel(numbers: torch.Tensor, title: str, colour: str, *, top: int) -> list[str]:
    """Return one histogram; its highest bar is as tall as the panel."""
    counts = torch.histc(numbers, _BINS, -_REACH, _REACH).int().tolist()
    floor = top + _TALL
    wide = (_WIDTH - 2 * _LEFT) / _BINS
    bars = [
        f'<rect x="{_x(i - _REACH):.1f}" y="{floor - height:.1f}" width="{wide - 1:.1f}" '
        f'height="{height:.1f}" fill="{colour}"/>'
        for i, count in enumerate(counts)
        if (height := _TALL * count / max(counts)) > 0
    ]
    line = f'<path d="M{_LEFT} {floor}H{_WIDTH - _LEFT}" stroke="{_GREY}"/>'
    return [_text(_LEFT, top + 4, title, "start"), *bars, line]


def _x(number: float) -> float:
    return _LEFT + (number + _REACH) * (_WIDTH - 2 * _LEFT) / (2 * _REACH)


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y}" fill="{_GREY}" text-anchor="{anchor}">{words}</text>'
