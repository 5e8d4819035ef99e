"""view: maps, or the numbers of a watch, as one page, or a map as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from softlookup.live.stored import StoredTrace, read_trace
from softlookup.live.trace import Trace
from softlookup.terms import SoftlookupError
from softlookup.viewer.html_page import page_of
from softlookup.viewer.map_layers import Explained, MapLayer
from softlookup.viewer.measuring_maps import Measured, measure_layer
from softlookup.viewer.packing import Held
from softlookup.viewer.page_facts import hold_layer, measure_facts
from softlookup.viewer.pictures import png_of_view, svg_of_view
from softlookup.viewer.planning_pages import plan_page
from softlookup.viewer.subjects import Asked, Run, other_run, refuse_other_sizes, run_of
from softlookup.viewer.watch_facts import trace_facts

_SUFFIXES = (".html", ".png", ".svg")


class View:
    """What ``view`` returns: a page that a notebook shows, and that can be saved.

    html: the text of the page;  words: what it shows, in a few words
    """

    def __init__(self, held: Held) -> None:
        self.html = page_of(held.facts, held.packed)
        self.words = str(held.facts["subtitle"])
        self._held = held
        self._path: Path | None = None

    def save(self, to: str | Path) -> View:
        """Write a page (.html) or a picture (.png, .svg) of the head that is opened, or of all heads.

        Raises: SoftlookupError for another ending, and where a trace is to become a picture.
        """
        path = Path(to)
        refuse_other_files(path)
        if path.suffix == ".html":
            path.write_text(self.html, encoding="utf-8")
        elif path.suffix == ".svg":
            path.write_text(svg_of_view(self._held), encoding="utf-8")
        else:
            path.write_bytes(png_of_view(self._held))
        self._path = path
        return self

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own: it reaches nothing of the notebook."""
        return (
            f'<iframe sandbox="allow-scripts" srcdoc="{escape(self.html, quote=True)}" '
            'style="width:100%;height:860px;border:0" title="softlookup view"></iframe>'
        )

    def __repr__(self) -> str:
        place = f"{self._path}, " if self._path else ""
        return f"View({self.words}; {place}{len(self.html) / 1e6:.2f} MB)"


def view(
    what: Any,
    *,
    text: str | None = None,
    inputs: Any = None,
    tokens: Any = None,
    tokenizer: Any = None,
    to: str | Path | None = None,
    compare: Any = None,
    compare_tokens: Any = None,
    head: tuple[int | str, int] | None = None,
    layers: str | Sequence[str] = "*",
    sample: int = 0,
    allowed_mask: Any = None,
    windows: Sequence[tuple[int, int]] | None = None,
    explained_by: Explained | None = None,
    title: str = "",
    max_mb: float = 20.0,
) -> View:
    """Show attention maps: layers x heads, one head, one query; or the numbers of a watch.

    what: weights [H, T_q, T_k] or [L, H, T_q, T_k], or a dict from layer to [H, T_q, T_k]; a Recording of
        ``record_attention``; a model, with ``text`` and ``tokenizer`` or with ``inputs``; a ``Trace`` of
        ``watch`` or its folder, which hold numbers and no maps
    inputs: a tensor, a tuple of arguments, or arguments by name
    tokens: one str for each position; for cross-attention a pair (of the queries, of the keys)
    to: a file: .html, or .png and .svg for a picture of ``head``, or of all heads
    compare: the same of another run, or another text or other inputs for the model: differences are shown
    compare_tokens: of that run, where they are others
    head: (layer, head) that is opened first; a layer is its number or its path
    layers: patterns of paths;  sample: which one of the batch
    allowed_mask: bool, True = may be looked at, or a mask of ``softlookup.masks``: for tensors of weights
    windows: first query and key of windows that stay exact where maps are pooled, as they are too long
    explained_by: "sink" or "dropout", where rows do not sum to one because of it
    max_mb: how large the page may become, in MB; longer maps are pooled, and the page says where

    The page holds everything, loads nothing, and reads weights of 8 bits; their error stands on it.

    Raises: SoftlookupError where ``what`` or an argument is none of these, where a map is invalid (NaN,
    negative, or a row that sums to anything but one), and where two runs differ in size.

    >>> import torch
    >>> weights = torch.eye(4).expand(2, 3, 4, 4)  # 2 layers, 3 heads
    >>> shown = view(weights, tokens=["the", " cat", " sat", "."])
    >>> str(shown).split(";")[0]
    'View(2 layers × 3 heads, 4 × 4'
    """
    if to is not None:
        refuse_other_files(Path(to))
    if isinstance(what, (str, Path)):
        what = read_trace(what, skip_damaged=True)
    if isinstance(what, (Trace, StoredTrace)):
        held = Held({**trace_facts(what), "title": title or "A watch of attention"})
        held.facts["subtitle"] = _trace_words(held.facts)
    else:
        asked = Asked(text, inputs, tokens, tokenizer, layers, sample, allowed_mask)
        ours = run_of(what, asked)
        theirs = None if compare is None else other_run(compare, compare_tokens, (what, asked))
        held = _held_maps(ours, theirs, explained_by, windows, max_mb)
        held.facts["title"] = title or ours.words or "Attention maps"
    held.facts["open"] = _opened(held.facts["layers"], head)
    shown = View(held)
    return shown if to is None else shown.save(to)


def refuse_other_files(path: Path) -> None:
    """Refuse a file of another ending.

    Raises: SoftlookupError
    """
    if path.suffix not in _SUFFIXES:
        raise SoftlookupError(
            f"view: {str(path)!r} is no file that a view can be.",
            expected=f"a name that ends in {', '.join(_SUFFIXES)}",
            got=path.suffix or "no ending",
        )


def _held_maps(
    ours: Run,
    theirs: Run | None,
    explained: Explained | None,
    windows: Sequence[tuple[int, int]] | None,
    max_mb: float,
) -> Held:
    """Return what the page of maps holds."""
    runs = [ours] if theirs is None else [ours, theirs]
    if theirs is not None:
        refuse_other_sizes(ours, theirs)
    plan = plan_page(ours.layers, most_bytes=max_mb * 1e6, runs=len(runs), windows=windows)
    held = Held({"form": "maps", "layers": [], "measures": measure_facts(), "notes": []})
    shown = ours.tokens if theirs is None else ours.tokens.beside_those_of(theirs.tokens)
    for both in zip(*(it.layers for it in runs), strict=True):
        measured = [
            measure_layer(
                layer,
                (run.tokens if run.tokens.queries else ours.tokens).known(layer),
                plan.buckets_of(layer),
                plan.queries_of(layer),
                explained,
            )
            for run, layer in zip(runs, both, strict=True)
        ]
        mine, *other = zip(both, measured, strict=True)
        said = hold_layer(held, mine, plan, other[0] if other else None)
        held.facts["layers"].append({**said, **shown.beside(both[0])})
        held.facts["notes"] += _notes(*mine)
    held.facts["tokens"] = shown.lists
    held.facts["subtitle"] = _words(ours.layers, held.facts)
    return held


def _notes(layer: MapLayer, measured: Measured) -> list[str]:
    """Return what is worth a look before the maps are."""
    notes = []
    name = layer.name or "the model"
    if measured.on_hidden is not None:
        weight, head, query, key = measured.on_hidden
        notes.append(
            f"{name}, head {head}: query {query} puts {weight:.3g} on key {key}, which the mask hides."
        )
    if measured.blind:
        count = "1 query sees" if measured.blind == 1 else f"{measured.blind} queries see"
        notes.append(f"{name}: {count} no key, and its row is 0.")
    return notes


def _words(layers: Sequence[MapLayer], facts: dict[str, Any]) -> str:
    """Return one line: how many layers and heads, and how long."""
    heads = sorted({it.num_heads for it in layers})
    sizes = list(dict.fromkeys(f"{it.q_len:,} × {it.k_len:,}" for it in layers))
    lengths = sizes[0] if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    many = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
    layer_words = "1 layer" if len(layers) == 1 else f"{len(layers)} layers"
    head_words = "1 head" if heads == [1] else f"{many} heads"
    pooled = any(it["form"] == "pooled" for it in facts["layers"])
    return f"{layer_words} × {head_words}, {lengths}" + (", pooled" if pooled else "")


def _trace_words(facts: dict[str, Any]) -> str:
    layers, steps, alarms = len(facts["layers"]), facts["steps"], len(facts["alarms"])
    counts = [(layers, "layer"), (steps, "step"), (alarms, "alarm")]
    return ", ".join(f"{number:,} {word}{'' if number == 1 else 's'}" for number, word in counts)


def _opened(layers: Sequence[dict[str, Any]], head: tuple[int | str, int] | None) -> list[int] | None:
    """Return the number of the layer and the head that is opened first.

    Raises: SoftlookupError where there is no such head.
    """
    if head is None:
        return None
    layer, number = head
    names = [it["name"] for it in layers]
    place = names.index(layer) if layer in names else layer
    if not isinstance(place, int) or not 0 <= place < len(layers) or not 0 <= number < layers[place]["heads"]:
        raise SoftlookupError(
            "view: there is no such head to open.",
            expected=f"(layer, head) with a layer from 0 to {len(layers) - 1}, or its path",
            got=repr(head),
            hint=", ".join(names[:8]),
        )
    return [place, number]
