"""What can be wrong with a module whose recipe is unknown: one look at its behaviour each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from softlookup import catalog
from softlookup.checker.calls import Recorded
from softlookup.checker.hiding import opened_masks
from softlookup.checker.observed import Observed
from softlookup.checker.perturbing import Perturbed
from softlookup.checker.weight_names import dropout_of, heads_of, named_weights
from softlookup.terms import Finding

#: Words that promise the same output in training, padding included.
_PROMISED_SAME = re.compile(r"same\b.{0,40}\b(train|eval)|(train|eval)\w*.{0,40}\b(same|equal|agree)", re.S)

Look = Callable[[Observed], Iterator[Finding]]

#: Calls that give each head a copy of a mask.
_COPIES = frozenset(["repeat", "repeat_interleave", "tile"])


def repeated(of: Observed) -> Iterator[Finding]:
    """Two evaluations under other random numbers differ, by dropout."""
    if of.random and of.random_line is not None:
        yield _finding("SL801", of.random_line, {})


def neighbours(of: Observed) -> Iterator[Finding]:
    """Samples move when others do."""
    moved = of.seen.neighbours()
    if moved is not None and moved.any():
        facts = {"samples that move with others": moved.nonzero().flatten().tolist()}
        yield _finding("SL905" if of.swapped is None else "SL305", of.line(_is_lookup), facts)


def future(of: Observed) -> Iterator[Finding]:
    """Later tokens move earlier rows although causality was promised, or asked for."""
    influence, seen = of.influence, of.seen
    if not of.promises_causal:
        switches = [name for name, role in of.reading.roles.items() if role == "causal"]
        if not switches or "mask" in of.reading.roles.values():
            return  # beside a mask, a switch is often no more than a hint
        seen = of.given({switches[0]: True})
        influence = seen.influence()
    if influence is not None and of.ahead(influence):
        ahead = influence.triu(1)
        code = "SL102" if torch.equal(ahead, ahead.tril(1)) and ahead.diagonal(1).all() else "SL101"
        yield _finding(code, of.line(_is_lookup, seen), _places(ahead))


def masks_apart(of: Observed) -> Iterator[Finding]:
    """One sample's mask moves another sample; a mask switches causality off."""
    masked, mask = of.with_mask(), of.hiding
    if masked is None or mask is None or masked.first is None:
        return
    if of.looks_ahead is False and of.promises_causal and of.ahead(masked.influence()):
        yield _finding("SL114", of.line(_is_lookup, masked), {})
    if "B" not in mask.spelling.axes or of.way.x.batch == 1:
        return
    hidden, calls = of.hidden_tokens(), []
    more = torch.arange(hidden.shape[1]) >= hidden.shape[1] - 5
    for sample in range(len(hidden)):
        other = hidden.clone()
        other[sample] = more
        calls.append(masked.asked(given={mask.spelling.parameter: mask.written(other)}))
    outputs = masked.outputs(calls)
    moved = [one for output in outputs if (one := masked.moved(masked.first, output)) is not None]
    if len(moved) < len(calls):
        return
    table = torch.stack([of.real(one).any(dim=1) for one in moved])  # [mask of, sample]
    if (table & ~torch.eye(len(hidden), dtype=torch.bool)).any():
        facts = {"samples moved by the mask of each": [row.nonzero().flatten().tolist() for row in table]}
        line = of.line_reading(mask.spelling.parameter, masked.asked(), _COPIES)
        yield _finding("SL113" if table[1:].any() else "SL112", line, facts)


def hidden(of: Observed) -> Iterator[Finding]:
    """Hidden tokens move the rows of real ones."""
    mask, masked = of.hiding, of.with_mask()
    if mask is None or masked is None or not mask.leaks or of.convolves:
        return
    spelling = mask.spelling
    facts = {"mask": f"{spelling.parameter} [{', '.join(spelling.axes)}]", "True means": spelling.kind}
    line = of.line_reading(spelling.parameter, masked.asked()) or of.line(_is_lookup)
    alone = of.one_mask
    told = {"SL105": mask.ignored, "SL106": mask.inverted, "SL111": mask.only_hidden_rows and alone}
    for code, holds in told.items():
        if holds:
            yield _finding(code, line, facts)
            return
    if not alone:
        return  # several masks, several lookups: tokens may mix before this mask counts
    text = "Tokens that the mask hides move the rows of others, and no rule says how."
    yield Finding("SL000", "unrecognised", text, line=line, evidence=facts)


def padded(of: Observed) -> Iterator[Finding]:
    """Real tokens move when hidden padding is added behind them."""
    masked, mask, way = of.with_mask(), of.hiding, of.way
    if masked is None or mask is None or masked.first is None or mask.leaks or of.convolves or of.random:
        return
    if way.rows is not way.x or way.memory is not None or len(way.x.sizes) > 1:
        return
    hidden = of.hidden_tokens()
    longer = way.but(x=replace(way.x, sizes=(way.x.count + 3,)))
    x = torch.cat([masked.x, longer.x.random(8)[:, -3:]], dim=1)
    wide = torch.cat([hidden, torch.ones_like(hidden[:, :3])], dim=1)
    seen = Perturbed(of.target, longer, {mask.spelling.parameter: replace(mask, way=longer).written(wide)})
    output = seen.output(seen.asked(x))
    if output is None or output.shape[:2] != x.shape[:2]:
        return
    moved = masked.moved(masked.first, output[:, : way.x.count])
    if moved is not None and (moved & ~hidden).any():
        text = "Adding padding that the mask hides changes the output of real tokens."
        yield _finding("SL906", of.line(_is_lookup), _places(moved & ~hidden), text)


def changed(of: Observed) -> Iterator[Finding]:
    """Arguments are changed in place."""
    for seen in filter(None, (of.seen, of.with_mask())):
        names = sorted({str(name) for name in seen.answer(seen.asked()).changed})
        if names:
            text = f"The call changes its caller's tensors in place: {', '.join(names)}."
            line = of.line(lambda one: one.op == "__setitem__" or _in_place(one.op), seen)
            yield _finding("SL122", line, {"changed": names}, text)
            return


def gradients(of: Observed) -> Iterator[Finding]:
    """Gradients of one row are broken, cut off, or flow where values do not."""
    first = of.seen.first
    if first is None or of.random or of.seen.reach < 1e-6:
        return
    row, sample = first.shape[1] // 2, min(1, first.shape[0] - 1)
    found = of.seen.gradient(row)
    if isinstance(found, str):
        return
    if found is None or not found.any():
        if "no_grad" not in of.sketch.source and "inference_mode" not in of.sketch.source:
            text = "The output moves with the input, and no gradient reaches the input."
            yield _finding("SL805", of.line(lambda one: one.op in {"detach", "detach_"}), {}, text)
        return
    if not found.isfinite().all():
        yield _finding("SL805", None, {}, "The outputs are finite, their gradients are not.")
        return
    strong = found.abs().amax(dim=-1) > 1e-5 * found.abs().max()  # [B, T]
    ahead = of.looks_ahead is False and bool(strong[sample, row + 1 :].any())
    beside = (torch.arange(len(strong)) != sample)[:, None] & strong
    if ahead or beside.any():
        where = "later tokens" if ahead else "other samples"
        yield _finding("SL805", None, {}, f"Gradients flow to {where}, and values do not come from there.")


def trained(of: Observed) -> Iterator[Finding]:
    """Training without dropout computes something else than evaluation."""
    if of.random or of.training_differs:
        return
    dropout = dropout_of(of.sketch)
    off: dict[str, Any] = {"training": True}
    if dropout is not None:
        off |= {**dropout.off, "settings": dict(dropout.off["settings"])}
    for seen in (of.seen, *_with_masks(of)):
        one, two = seen.outputs([seen.asked(**off), seen.asked(**off, seed=1)])
        again = seen.moved(one, two)
        if one is None or again is None or again.any():
            continue
        moved = seen.moved(seen.first, one)
        if moved is not None and seen is not of.seen and not _PROMISED_SAME.search(of.reading.words):
            moved = of.real(moved)  # what rows of padding hold is a convention
        shorter = moved is None and seen.answer(seen.asked()).failure is None
        if shorter or (moved is not None and moved.any()):
            text = "Training without dropout computes another output than evaluation."
            text += " It has another shape." if shorter else ""
            yield _finding("SL705", _parting(seen, off), {"with a mask": seen is not of.seen}, text)
            return


def _with_masks(of: Observed) -> list[Perturbed]:
    """The module with its padding mask, or where no output fits, with each mask that it may take."""
    masked = of.with_mask()
    if not of.one_mask and of.way.memory is not None:
        return []
    if masked is not None:
        return [masked]
    return [of.given(values) for values in opened_masks(of.way, of.reading)]


def _parting(seen: Perturbed, other: dict[str, Any]) -> int | None:
    """The last line that only evaluation runs through, else the last line of all."""
    evaluated, trained = (seen.answer(seen.asked(record=True, **more)) for more in ({}, other))
    lines = [one.line for one in evaluated.recorded]
    alone = [line for line in lines if line not in {one.line for one in trained.recorded}]
    last = next(reversed(alone or lines), None)
    made = {serial for one in evaluated.recorded for serial in one.writes}
    if last is None or set(evaluated.result_serials) & made:
        return last
    return _returning(seen, last)  # what made the output is a call that torch does not show


def _returning(seen: Perturbed, line: int) -> int:
    """The return statement at or after a line."""
    sketch = seen.target.sketch
    texts = sketch.source.splitlines()
    above = next((n for n, text in enumerate(texts) if text.lstrip().startswith(("class ", "def "))), 0)
    first = sketch.line - above
    returns = (first + n for n, text in enumerate(texts) if text.lstrip().startswith("return "))
    return next((one for one in returns if one >= line), line)


def far_pixels(of: Observed) -> Iterator[Finding]:
    """Pixels of an image move others farther than a shifted window reaches."""
    side, shift = (of.sketch.settings.get(name, 0) for name in ("window_size", "shift_size"))
    influence, sizes = of.influence, of.way.x.sizes
    if len(sizes) != 2 or not side or not shift or influence is None:
        return
    places, rows = torch.tensor(of.seen.places()), torch.arange(of.way.x.count)
    down = (rows[:, None] // sizes[1] - places // sizes[1]).abs()
    across = (rows[:, None] % sizes[1] - places % sizes[1]).abs()
    far = influence & ((down >= side) | (across >= side))
    if far.any():
        text = f"Pixels move others that are {side} or more away: the windows do not hold them apart."
        line = of.line(lambda one: one.op == "__setitem__") or of.line(
            _is_lookup
        )  # where regions are told apart
        yield _finding("SL117", line, {"pairs": int(far.sum())}, text)


def shared_by_heads(of: Observed) -> Iterator[Finding]:
    """Projections of one head's width serve every head."""
    heads, width = heads_of(of.sketch) or 1, of.way.x.width
    shapes = {n.role: n.weight.shape for n in named_weights(of.sketch) if n.role in {"q", "k", "v"}}
    narrow = (width // heads, width // heads)
    if heads > 1 and set(shapes) == {"q", "k", "v"} and set(shapes.values()) == {narrow}:
        text = (
            f"The projections of q, k and v are {narrow[0]} x {narrow[0]} and serve all {heads} heads alike: "
            "the input is cut into heads before it is projected."
        )
        fix = f"project the whole width, {width} x {width}, and cut into heads afterwards"
        yield Finding("SL000", "unrecognised", text, line=of.sketch.line, fix=fix)


#: In the order in which they are asked.
LOOKS: tuple[Look, ...] = (
    repeated, neighbours, future, masks_apart, hidden, padded, changed, gradients, trained, far_pixels,
    shared_by_heads,
)  # fmt: skip

#: Findings that say why the rest moves: what follows would only repeat them.
EXPLAINING = frozenset(
    ["SL801", "SL905", "SL305", "SL101", "SL102", "SL105", "SL106", "SL112", "SL113", "SL114"]
)


def _finding(code: str, line: int | None, facts: dict[str, Any], text: str = "") -> Finding:
    """Return a finding in a rule's name."""
    entry = catalog.find_rule(code)
    fix, training = entry.part("Fix"), entry.part("Training")
    return Finding(code, entry.name, text or entry.summary, line, fix, training, facts)


def _is_lookup(one: Recorded) -> bool:
    return one.op in {"softmax", "scaled_dot_product_attention", "multi_head_attention_forward"}


def _in_place(op: str) -> bool:
    return (op.endswith("_") and not op.endswith("__")) or (op.startswith("__i") and op != "__invert__")


def _places(pairs: Tensor) -> dict[str, Any]:
    return {"places": [list(map(int, place)) for place in pairs.nonzero()[:6]]}
