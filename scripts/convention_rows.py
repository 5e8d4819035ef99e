"""The rows of the table of mask conventions, written from the facts that were measured."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

from asking_libraries import NO_SUCH_CALL

from softlookup.conventions.discover import Convention

HEADER = (
    "| API | True means | shapes | corner | window of 3 shows | row without keys | measured with |",
    "|---|---|---|---|---|---|---|",
)
_SAYS = {
    "allowed": "may look",
    "blocked": "hidden",
    "additive": "added",
    "bounds": "bounds of documents",
}
_FOUR_AXES = {"B 1 1 T_k", "B 1 T_q T_k", "1 H T_q T_k", "B H T_q T_k"}
NO_LIBRARY = "softlookup"  # the words of a convention of no library


def row_of(it: Convention, fact: dict[str, Any]) -> str:
    """Return the row of one convention."""
    name = re.sub(r"\.(?=\w)|(?<=[a-z_])(?=[A-Z])|_(?=[a-z])", r"\g<0><wbr>", it.name)
    cells = [
        f"[{name}](#{_anchor(it.name)})",
        _meaning(fact["entries"]),
        _shapes_in_short(fact["shapes"]),
        _corner(fact["corner"]),
        _window(fact["window"]),
        _empty_rows(fact["empty_rows"]),
        _measured_with(it, fact),
    ]
    return f"| {' | '.join(cells)} |"


def link_to(it: Convention) -> str:
    """Return a link to the section of a convention."""
    return f"[{it.name}](#{_anchor(it.name)})"


def _anchor(title: str) -> str:
    """Return the name that mkdocs gives a heading."""
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain).strip().lower())


def _meaning(entries: dict[str, dict[str, str]]) -> str:
    """Say what True means, and numbers where they mean something else; by argument where these differ."""
    arguments: dict[str, list[str]] = {}
    for argument, by_dtype in entries.items():
        arguments.setdefault(_of_argument(by_dtype), []).append(f"`{argument}`")
    if len(arguments) == 1:
        return next(iter(arguments))
    return "<br>".join(f"{', '.join(names)}: {words}" for words, names in arguments.items())


def _of_argument(by_dtype: dict[str, str]) -> str:
    says = {dtype: _SAYS.get(it, it.partition(":")[0]) for dtype, it in by_dtype.items()}
    first = says.pop("bool", None)
    by_words: dict[str, list[str]] = {}
    for dtype, words in says.items():
        by_words.setdefault(words, []).append(dtype)
    if first is None:
        return ", ".join(f"{' and '.join(dtypes)}: {words}" for words, dtypes in by_words.items())
    others = ", ".join(
        f"{' and '.join(dtypes)}: {words}" for words, dtypes in by_words.items() if words != first
    )
    return f"**{first}**" + (f" ({others})" if others else "")


def _shapes_in_short(shapes: dict[str, dict[str, str]]) -> str:
    """List what the arguments take, a line for each argument that takes something else."""
    return "<br>".join(dict.fromkeys(map(_taken, shapes.values())))


def _taken(by_shape: dict[str, str]) -> str:
    taken = [shape for shape, says in by_shape.items() if says == "taken"]
    if not taken:
        return "no tensor"
    if set(taken) >= _FOUR_AXES:
        fewer = "T_q T_k" in taken  # as in NumPy, leading axes may be missing
        more = [it for it in taken if it not in _FOUR_AXES and not (fewer and it == "T_q T_k")]
        return ", ".join(["broadcasts" if fewer else "four axes", *map(_in_a_cell, more)])
    return ", ".join(map(_in_a_cell, taken))


def _in_a_cell(shape: str) -> str:
    """Return a shape that no browser breaks."""
    return shape.replace(" ", "&nbsp;").replace("*", "\\*")


def in_brackets(shape: str) -> str:
    """Return a shape as people write it."""
    return f"`[{', '.join(shape.split())}]`"


def _corner(corner: dict[str, str] | None) -> str:
    if corner is None:
        return "no flag"
    possible = {says for says in corner.values() if says != NO_SUCH_CALL}
    if len(possible) == 1:
        return possible.pop()
    return ", ".join(f"{lengths}: {says}" for lengths, says in corner.items())


def _window(window: dict[str, Any] | None) -> str:
    if window is None:
        return "no window"
    keys = window["keys"]
    if isinstance(keys, str):
        return keys
    first, last = keys[0], keys[-1]
    return f"{len(keys)} keys: {_beside('i', first)} to {_beside('i', last)}"


def _beside(name: str, steps: int) -> str:
    return f"{name}{steps:+d}" if steps else name


def _empty_rows(rows: dict[str, str] | None) -> str:
    if rows is None:
        return "not run"
    by_words: dict[str, list[str]] = {}
    for form, words in rows.items():
        by_words.setdefault(words.replace("the average of all", "average"), []).append(form)
    by_words.pop("cannot say it", None)
    if len(by_words) == 1:
        return next(iter(by_words))
    return ", ".join(f"{words} ({', '.join(them)})" for words, them in by_words.items()) or "cannot say it"


def _measured_with(it: Convention, fact: dict[str, Any]) -> str:
    if fact["measured_with"] is not None:
        return ", ".join(f"{package} {number}" for package, number in fact["measured_with"].items())
    return "no library" if it.words == NO_LIBRARY else f"read, not run: {it.words}"
