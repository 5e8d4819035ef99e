"""Words in an SVG file."""

from __future__ import annotations

from html import escape

from softlookup.report.plain_words import printable


def words_at(x: float, y: float, words: str, name: str = "", anchor: str = "") -> str:
    """Return words at a place, as one element. name: of the class

    >>> words_at(4, 8.5, "a < b", "label")
    '<text x="4" y="8.5" class="label">a &lt; b</text>'
    """
    attributes = (f' class="{name}"' if name else "") + (f' text-anchor="{anchor}"' if anchor else "")
    return f'<text x="{x:g}" y="{y:g}"{attributes}>{safe(words)}</text>'


def safe(words: str) -> str:
    """Return text for XML; what no XML file can hold is a question mark."""
    return escape(printable(words))
