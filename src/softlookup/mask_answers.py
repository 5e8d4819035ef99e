"""What a mask shows, drawn and in words: empty rows, why a key is hidden, the calls of other libraries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor

from softlookup.conventions import conventions, find_convention
from softlookup.conventions.converting import read_mask, refuse_loss, sizes_of, write_mask
from softlookup.conventions.drawing import draw_arguments
from softlookup.conventions.spelling import Sizes
from softlookup.conventions.tensors import as_tensor
from softlookup.mask_cells import mask_picture, refuse_too_many
from softlookup.masks import Bias, Mask
from softlookup.report.mask_panels import MaskPicture
from softlookup.report.mask_text import text_of
from softlookup.report.plain_words import printable
from softlookup.terms import SoftlookupError

_MOST_ENTRIES = 2304  # of a tensor that is drawn or written into JSON: 48 x 48
_MOST_LISTED = 8  # empty rows, samples that a key is explained for

Place = tuple[int, ...]  #: query, key and, where they are asked for, sample and head


@dataclass(frozen=True, eq=False)
class AskedMask:
    """A mask as it came, and what it shows.

    said: its name in words
    visible: who may look at whom
    sizes: T_q, T_k, B and H, where they were given or the mask fixes them
    lost: what it says beyond that
    least_keys: whether T_k is only the least that fits, as nobody said it
    """

    said: str
    visible: Mask
    sizes: Sizes
    lost: tuple[str, ...]
    least_keys: bool = False

    def lengths(self) -> tuple[int, int] | None:
        """Return T_q and T_k, or None where somebody must say them first.

        A mask that is the same for every query stands for all of them with one.
        """
        q_len = self.sizes.q_len or (None if "T_q" in self.visible.axes else 1)
        k_len = self.sizes.k_len or (None if "T_k" in self.visible.axes else 1)
        return None if q_len is None or k_len is None else (q_len, k_len)

    def needed_lengths(self, what_for: str) -> tuple[int, int]:
        """Return T_q and T_k.

        Raises: SoftlookupError that names those which are missing.
        """
        lengths = self.lengths()
        if lengths is None:
            missing = [
                f"{field}=..."
                for field, axis in {"q_len": "T_q", "k_len": "T_k"}.items()
                if getattr(self.sizes, field) is None and axis in self.visible.axes
            ]
            raise SoftlookupError(
                f"mask: {what_for} needs the lengths of {self.said}.",
                expected=" ".join(missing),
                got="no number",
            )
        return lengths

    def picture(self) -> MaskPicture:
        """Return what is drawn.

        Raises: SoftlookupError when a length is missing or does not fit.
        """
        return mask_picture(self.visible, *self.needed_lengths("a drawing"), self.said)

    def empty_rows(self) -> list[tuple[int, int, int]] | None:
        """Return (batch, head, query) of each query that sees no key; None where lengths are missing."""
        lengths = self.lengths()
        if lengths is None:
            return None
        self.visible._check(*lengths)
        if not self.visible._always_sees(*lengths):
            refuse_too_many(self.visible, *lengths)
        return self.visible.empty_rows(*lengths)

    def explained(self, place: Place) -> list[str]:
        """Say for a place, or for it in every sample and head, whether the key is seen, or what hides it.

        Raises: SoftlookupError when there is no such place.
        """
        query, key, *rest = place
        lengths = {"q_len": self.sizes.q_len, "k_len": self.sizes.k_len}
        batches, heads = ((self.visible.sizes[axis] or 1) for axis in ("B", "H"))
        asked = [range(batches), range(heads)]
        asked[: len(rest)] = [range(number, number + 1) for number in rest]
        places = list(itertools.product(*asked))
        more = [f"... and {len(places) - _MOST_LISTED} more"] * (len(places) > _MOST_LISTED)
        return [
            self.visible.explain(query, key, **lengths, batch=batch, head=head)
            for batch, head in places[:_MOST_LISTED]
        ] + more


@dataclass(frozen=True)
class Wanted:
    """What is asked about a mask."""

    draw: bool = False
    explain: Place | None = None
    targets: tuple[str, ...] = ()
    lossy: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """One library's call with a mask."""

    name: str
    call: str
    arguments: Mapping[str, Any]
    drawing: str
    lost: tuple[str, ...]

    def lines(self) -> Iterator[str]:
        """Yield the call, its arguments drawn, and what it leaves out."""
        yield f"{self.name}: {self.call}"
        yield from (f"  {line}" for line in self.drawing.splitlines())
        yield from (f"  lost: {words}" for words in self.lost)

    def as_dict(self) -> dict[str, Any]:
        """Return the same for JSON."""
        arguments = {name: _as_json(value) for name, value in self.arguments.items()}
        return {"convention": self.name, "call": self.call, "arguments": arguments, "lost": list(self.lost)}


def ask_mask(given: Any, said: str, sizes: Sizes, source: str = "allowed_mask") -> AskedMask:
    """Return a mask, a bias or a tensor with what it shows.

    Raises: SoftlookupError when it cannot mean what ``source`` says, or sizes do not fit.

    >>> from softlookup.masks import causal
    >>> ask_mask(causal(), "causal()", Sizes(q_len=4, k_len=4)).explained((1, 3))
    ['key 3 is hidden from query 1: causal']
    """
    reading = read_mask(given, source, sizes)
    own = reading.mask
    known = sizes_of(given if isinstance(given, Bias) else own, sizes)
    least = own._least_k_len() if known.k_len is None else 0
    if least:
        known = replace(known, k_len=least)
    return AskedMask(said, own, known, reading.lost, least_keys=least > 0)


def mask_report(asked: AskedMask, wanted: Wanted) -> str:
    """Return everything that is wanted as text, the empty rows at the end.

    Raises: SoftlookupError when a length is missing, or a library cannot say all of the mask.
    """
    sections = [[_heading(asked), *(f"beyond who may look: {printable(words)}" for words in asked.lost)]]
    if wanted.draw:
        same = "T_q" not in asked.visible.axes and asked.sizes.q_len is None
        note = ["(every query sees the same keys: one is drawn)"] * same
        sections.append([text_of(asked.picture()), *note])
    if wanted.explain:
        sections.append(asked.explained(wanted.explain))
    sections += [list(it.lines()) for it in calls(asked, wanted)]
    sections.append([_empty_in_words(asked, asked.empty_rows())])
    return "\n\n".join("\n".join(section) for section in sections)


def mask_facts(asked: AskedMask, wanted: Wanted) -> dict[str, Any]:
    """Return the same for JSON; ``empty_rows`` is None where lengths are missing.

    Raises: SoftlookupError as ``mask_report`` does.
    """
    facts: dict[str, Any] = {"mask": asked.said, "sizes": asdict(asked.sizes), "lost": list(asked.lost)}
    rows = asked.empty_rows()
    facts["empty_rows"] = None if rows is None else [list(row) for row in rows[:_MOST_ENTRIES]]
    facts["empty_rows_in_all"] = None if rows is None else len(rows)
    if wanted.draw:
        picture = asked.picture()
        facts["drawing"] = {"block": list(picture.block), "left_out": picture.left_out}
        facts["drawing"]["panels"] = [
            {"title": it.title, "rows": list(it.rows), "blind": sorted(it.blind)} for it in picture.panels
        ]
    if wanted.explain:
        facts["explained"] = asked.explained(wanted.explain)
    if wanted.targets:
        facts["to"] = [it.as_dict() for it in calls(asked, wanted)]
    return facts


def calls(asked: AskedMask, wanted: Wanted) -> Iterator[Call]:
    """Yield the call of each library that is wanted.

    Raises: SoftlookupError for what would be lost, unless ``wanted.lossy``.
    """
    for target in wanted.targets:
        convention, form = find_convention(target)
        written = write_mask(asked.visible, target, asked.sizes)
        lost = (*asked.lost, *written.lost)
        if lost and not wanted.lossy:
            raise refuse_loss(target, lost)
        call = convention.call.format(", ".join(f"{name}={name}" for name in written.arguments))
        drawing = draw_arguments(convention, written.arguments, most=_MOST_ENTRIES)
        name = convention.name + (f"[{form}]" if form else "")
        yield Call(name, call, written.arguments, drawing, lost)


def convention_list() -> list[dict[str, Any]]:
    """Return every convention: its names, forms, call, and what its tensors mean."""
    return [
        {
            "name": it.name,
            "also": list(it.also),
            "forms": list(it.forms),
            "call": it.call,
            "takes": [asdict(takes) for takes in it.takes],
            "words": it.words,
        }
        for it in conventions()
    ]


def convention_lines() -> str:
    """Return the same as text: for each convention what its main tensor says, and its forms."""
    says = {
        "allowed": "nonzero may look",
        "blocked": "nonzero is hidden",
        "additive": "is added to the scores",
        "bounds": "says where rows begin and end",
    }
    listed = conventions()
    width = max(len(it.name) for it in listed)
    return "\n".join(
        f"{it.name.ljust(width)}  {it.takes[0].argument} {says[it.takes[0].meaning]}; "
        f"forms: {', '.join(f'[{form}]' for form in it.forms)}"
        for it in listed
    )


def _heading(asked: AskedMask) -> str:
    sizes = {"T_q": asked.sizes.q_len, "T_k": asked.sizes.k_len}
    sizes |= {"B": asked.sizes.batch_size, "H": asked.sizes.num_heads}
    known = ", ".join(f"{axis} = {size}" for axis, size in sizes.items() if size is not None)
    note = " (T_k is the least that fits: --k-len says another)" * asked.least_keys
    return printable(asked.said) + (f"   {known}{note}" if known else "")


def _empty_in_words(asked: AskedMask, rows: list[tuple[int, int, int]] | None) -> str:
    if rows is None:
        return "empty rows: not looked for, they depend on the lengths (--q-len, --k-len)"
    if not rows:
        return "empty rows: none, every query sees a key"
    every = "T_q" not in asked.visible.axes and asked.sizes.q_len is None
    named = ["every query" + of if every else _counted(run) + of for of, run in _runs(asked, rows)]
    more = f"; {len(rows):,} in all" if len(named) > _MOST_LISTED else ""
    said = "; ".join(named[:_MOST_LISTED])
    return f"empty rows: {said}{more}. No key is seen there: many libraries answer with NaN"


def _runs(asked: AskedMask, rows: list[tuple[int, int, int]]) -> Iterator[tuple[str, range]]:
    """Yield consecutive queries with the sample and head that they are of, in words."""
    axes = asked.visible.axes
    for (batch, head, _), run in itertools.groupby(
        enumerate(rows), key=lambda it: (*it[1][:2], it[1][2] - it[0])
    ):
        queries = [query for _, (_, _, query) in run]
        where = [f"sample {batch}"] * ("B" in axes) + [f"head {head}"] * ("H" in axes)
        yield f" of {', '.join(where)}" if where else "", range(queries[0], queries[-1] + 1)


def _counted(queries: range) -> str:
    return f"query {queries[0]}" if len(queries) == 1 else f"queries {queries[0]} to {queries[-1]}"


def _as_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_as_json(it) for it in value]
    if isinstance(value, Tensor) or hasattr(value, "__array__"):
        tensor = as_tensor(value, "mask")
        dtype = str(tensor.dtype).removeprefix("torch.")
        values = _finite(tensor.tolist()) if tensor.numel() <= _MOST_ENTRIES else None
        return {"dtype": dtype, "shape": list(tensor.shape), "values": values}
    plain = isinstance(value, (bool, int, float, str, list, type(None)))
    return value if plain else {"type": type(value).__name__}


def _finite(value: Any) -> Any:
    """Return numbers in lists, those that JSON does not have as words: "-inf"."""
    if isinstance(value, list):
        return [_finite(it) for it in value]
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)
