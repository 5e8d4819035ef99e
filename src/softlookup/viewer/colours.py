"""The two colour scales of maps: 256 steps each, of evenly growing lightness, so that nobody needs hues.

A scale runs through a few colours in OKLab, a space in which equal steps look equally large (Björn Ottosson,
2020). Lightness alone tells the order: it reads the same in grey and with any colour-blindness. The scale of
differences is as light at +x as at -x, and orange and blue stay apart without red or green.
"""

from __future__ import annotations

from itertools import pairwise

Rgb = tuple[int, int, int]

STEPS = 256
#: Lightness, and the hue as (a, b) in OKLab, from no weight to all of it, on a light page.
_WEIGHTS = (
    (0.985, -0.004, 0.016),
    (0.84, -0.058, 0.055),
    (0.66, -0.075, -0.012),
    (0.48, -0.030, -0.075),
    (0.24, 0.012, -0.075),
)
#: The same from -most over 0 to +most: blue, paper, orange.
_DIFFERENCES = (
    (0.42, -0.030, -0.115),
    (0.70, -0.040, -0.075),
    (0.975, 0.000, 0.004),
    (0.70, 0.070, 0.100),
    (0.42, 0.085, 0.075),
)


def weight_colours() -> list[Rgb]:
    """Return 256 colours from paper (0) over green and teal to navy (the most); reversed on a dark page.

    >>> weight_colours()[0] > weight_colours()[255]
    True
    """
    return _through(_WEIGHTS)


def difference_colours(*, dark: bool = False) -> list[Rgb]:
    """Return 256 colours from blue (less) over paper, or nearly black, to orange (more)."""
    return _through([(1.13 - light, a, b) for light, a, b in _DIFFERENCES] if dark else _DIFFERENCES)


def as_hex(colours: list[Rgb]) -> str:
    """Return colours as one text of six digits each, as the page reads them."""
    return "".join(f"{red:02x}{green:02x}{blue:02x}" for red, green, blue in colours)


def lightness(colour: Rgb) -> float:
    """Return CIE L* of a colour, 0 (black) to 100 (white).

    >>> round(lightness((255, 255, 255))), round(lightness((0, 0, 0)))
    (100, 0)
    """
    red, green, blue = (_linear(part / 255) for part in colour)
    luminance: float = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return float(116 * luminance ** (1 / 3) - 16) if luminance > 0.008856 else 903.3 * luminance


def _through(points: list[tuple[float, float, float]] | tuple[tuple[float, float, float], ...]) -> list[Rgb]:
    """Return the colours on straight lines between points, evenly by lightness between each two of them."""
    lengths = [abs(b[0] - a[0]) for a, b in pairwise(points)]
    colours = []
    for step in range(STEPS):
        place, part = sum(lengths) * step / (STEPS - 1), 0
        while part < len(lengths) - 1 and place > lengths[part]:
            place -= lengths[part]
            part += 1
        share = min(1.0, place / lengths[part])
        start, end = points[part], points[part + 1]
        colours.append(_rgb(*(a + share * (b - a) for a, b in zip(start, end, strict=True))))
    return colours


def _rgb(light: float, a: float, b: float) -> Rgb:
    """Return a colour of OKLab as sRGB."""
    long = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    return (
        _byte(4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short),
        _byte(-1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short),
        _byte(-0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short),
    )


def _byte(linear: float) -> int:
    linear = min(1.0, max(0.0, linear))
    curved = 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
    return round(255 * curved)


def _linear(curved: float) -> float:
    return curved / 12.92 if curved <= 0.04045 else float(((curved + 0.055) / 1.055) ** 2.4)
