"""One page that needs nothing else: its style, its script and its data lie in it, and it can load no more."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import softlookup
from softlookup.viewer.colours import as_hex, difference_colours, weight_colours

_FOLDER = Path(__file__).with_name("page")
#: The script, in the order in which the parts build on each other.
SCRIPTS = (
    "colours.js",
    "packed.js",
    "tokens.js",
    "state.js",
    "overview.js",
    "map_drawing.js",
    "map_view.js",
    "row_view.js",
    "search.js",
    "trace_view.js",
    "start.js",
)


def page_of(facts: Mapping[str, Any], packed: Mapping[str, str]) -> str:
    """Return the text of a page, which UTF-8 can hold whatever the tokens are.

    facts: plain values;  packed: base64 by name
    """
    style = _text("page.css")
    script = '"use strict";\n(() => {\n' + "\n".join(_text(name) for name in SCRIPTS) + "})();\n"
    facts = {**facts, "version": softlookup.__version__, "colours": _colours()}
    first = [name for name in packed if _is_looked_at_first(name, facts["open"] or [0, 0])]
    parts = {
        "POLICY": _policy(script, style),
        "TITLE": ascii_html(str(facts["title"])),
        "STYLE": style,
        "FACTS": safe_json(facts),
        "FIRST": _elements(packed, first),
        "DATA": _elements(packed, [name for name in packed if name not in set(first)]),
        "SCRIPT": script,
    }
    page = _text("page.html")
    for name in (
        "POLICY",
        "TITLE",
        "STYLE",
        "SCRIPT",
        "FIRST",
        "DATA",
        "FACTS",
    ):  # what users wrote comes last
        page = page.replace(f"<!--{name}-->", parts[name], 1)
    return page


def _is_looked_at_first(name: str, opened: Sequence[int]) -> bool:
    """Say whether numbers are drawn at once: the script runs while the browser still reads the others."""
    layer, head = opened
    return (
        name.endswith("-small")
        or name.startswith("mask-")
        or name
        in {
            f"{layer}-{head}",
            f"{layer}-gap-{head}",
        }
    )


def _elements(packed: Mapping[str, str], names: Sequence[str]) -> str:
    return "\n".join(
        f'<script type="application/octet-stream" id="packed-{name}">{packed[name]}</script>'
        for name in names
    )


def safe_json(facts: Mapping[str, Any]) -> str:
    r"""Return JSON that ends no script element and hides nothing in it: ASCII, and no <, > or &.

    >>> safe_json({"token": "</script>"})
    '{"token":"\\u003c/script\\u003e"}'
    """
    text = json.dumps(facts, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def ascii_html(text: str) -> str:
    """Return text of the user's for HTML; a lone surrogate, which no file can hold, is a question mark."""
    kept = "".join("?" if 0xD800 <= ord(it) <= 0xDFFF or ord(it) < 32 else it for it in text)
    return escape(kept).encode("ascii", "xmlcharrefreplace").decode("ascii")


def _policy(script: str, style: str) -> str:
    """Return a policy by which this script and this style run, and nothing is loaded."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _colours() -> dict[str, str]:
    return {
        "weights": as_hex(weight_colours()),
        "gaps": as_hex(difference_colours()),
        "gapsDark": as_hex(difference_colours(dark=True)),
    }


def _text(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
