"""Find a way to call a module whose projections are unknown: sizes from its weights and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product
from math import isqrt

import torch

from softlookup.checker.calling import one_line
from softlookup.checker.calls import Answer, Sketch, Target
from softlookup.checker.reading import Reading
from softlookup.checker.results import leaves
from softlookup.checker.ways import POSITIONS, T_MEMORY, T, Tokens, Way
from softlookup.checker.weight_names import d_head_of, heads_of, named_weights
from softlookup.terms import SoftlookupError

_MOST, _AT_ONCE = 600, 16  # guesses
#: Required arguments of these roles may have to be given in one of so many forms.
_FORMS = ({"positions": 3, "rotary": 4}, {"mask": 9}, {"bias": 2})

_WIDTH = re.compile(
    r"(d|dim|n)_?(model|emb(d|ed)?|hidden|in)|(embed|hidden|emb|model|in|input)_?(dim|size|features|width)"
    r"|dim|width|channels|in_(channels|planes)|n_embd|features|c"
)
_SIDE = re.compile(
    r"(.*_)?(window|ws|win|grid|patch(es)?|img|image|resolution)(_?size)?|input_resolution|side"
)
_LENGTH = re.compile(r"(.*_)?(seq|context|block|num|n|max)_?(len|length|size|tokens|patches|nodes|frames)")


class NoWayError(SoftlookupError):
    """A module could not be called at all."""

    line: int | None = None


def way_to_call(target: Target, reading: Reading) -> Way:
    """Return the likeliest way to call a module under which it returns an output for each sample.

    Raises: NoWayError when none was found, with what stopped the likeliest guess.
    """
    sketch = target.sketch
    inputs = _inputs(sketch, reading)
    furthest: tuple[Way, Answer | None] | None = None
    failures: list[str] = []
    for told in (None, failures):  # then once more, in sizes that the failures told
        guesses = islice(_ways(sketch, reading, inputs, told), _MOST)
        while some := list(islice(guesses, _AT_ONCE)):
            for way, answer in _asked(target, some):
                found = way.reads(answer.result) if answer.failure is None else None
                output = None if found is None else found.read(answer.result)
                if found is not None and output is not None and output.isfinite().all():
                    return found
                failures.append(answer.failure.message if answer.failure else "")
                if furthest is None or _line(answer) > _line(furthest[1]):
                    furthest = way, answer
            furthest = furthest or (some[0], None)
    raise _no_way(sketch, inputs, furthest)


def _asked(target: Target, ways: list[Way]) -> Iterator[tuple[Way, Answer]]:
    """Yield what the module answers to those of the ways that can be written as a call."""
    asked = [(way, call) for way in ways if (call := way.call(way.x.random(1), seed=0)) is not None]
    answers = target.perform([call for _, call in asked])
    yield from ((way, answer) for (way, _), answer in zip(asked, answers, strict=True))


def _line(answer: Answer | None) -> int:
    """The line where a guess failed: the further down, the more of it was right."""
    return (answer.failure.line or 0) if answer and answer.failure else 0


def _told_counts(failures: list[str]) -> list[int]:
    """Numbers of tokens on which failures insisted: "must match the size of tensor b (196)"."""
    told = (int(size) for words in failures for size in re.findall(r"must match .*?\((\d+)\)", words))
    return list(dict.fromkeys(size for size in told if 1 < size <= 256))


def _inputs(sketch: Sketch, reading: Reading) -> list[dict[str, str]]:
    """Roles of the parameters in which inputs are "x" and "memory", likely ones first."""
    required = [p.name for p in sketch.parameters if p.required and not p.kind.startswith("*")]
    by_role = {role: name for name, role in reading.roles.items()}
    roles = {
        n: role for n, role in reading.roles.items() if role not in {"q", "k", "v", "x", "memory", "qkv"}
    }
    asking = [by_role[role] for role in ("x", "q", "qkv") if role in by_role][:1]
    beside = [by_role[role] for role in ("k", "v", "memory") if role in by_role]
    unknown = [name for name in required if name not in reading.roles]
    if not asking:
        asking = unknown[:1] or beside[:1]
        beside, unknown = [n for n in beside if n not in asking], unknown[1:]
    if not asking:
        return []
    needed = [name for name in beside if name in required]
    if not needed and not beside:
        needed = unknown[:1]
    alone = {**roles, asking[0]: "x"}
    both = {**alone, **dict.fromkeys(needed or beside[:1], "memory")}
    same = {**alone, **dict.fromkeys(needed or [reading.without], "x")}
    if {"k", "v"} & {role for role, name in by_role.items() if name in needed}:
        return [same, both]
    if needed:
        return [both, same]
    if "memory" in by_role:
        return [both, alone]
    if reading.without:  # it may be left out only in name: forward(x, x)
        return [alone, same]
    return [alone, both] if beside else [alone]


def _ways(
    sketch: Sketch, reading: Reading, inputs: list[dict[str, str]], failures: list[str] | None = None
) -> Iterator[Way]:
    """Yield ways to call the module, likely ones first; with failures only those in the sizes they tell."""
    widths = _widths(sketch, ("q", "qkv", "packed"))
    open_value = None if reading.mask_kind is None else reading.mask_kind == "allowed"
    for roles in inputs:
        styles = _styles(sketch, roles)
        for layout, width in product(_token_layouts(sketch, reading), widths):
            sized = _sized(sketch, layout, width)
            if failures is not None:
                sized = _of_counts(_told_counts(failures), layout, width)
            for x in sized:
                way = Way(sketch.parameters, roles, x, d_head=_d_head(sketch, width), open_value=open_value)
                for whole in _with_memory(way, _widths(sketch, ("k", "kv", "v"))):
                    yield from (whole.but(style=style, filled=filled) for style, filled in styles)


def _styles(sketch: Sketch, roles: dict[str, str]) -> list[tuple[tuple[int, ...], bool]]:
    """Forms of the arguments that are no inputs, and whether positions are given that may be left out."""
    found: list[tuple[tuple[int, ...], bool]] = []
    for filled in (False, True):
        needed = {
            roles.get(p.name)
            for p in sketch.parameters
            if p.required or (filled and roles.get(p.name) in POSITIONS)
        }
        counts = [max([n for role, n in forms.items() if role in needed], default=1) for forms in _FORMS]
        if not filled or needed & POSITIONS:
            found += [(style, filled) for style in product(*map(range, counts))]
    return found


def _with_memory(way: Way, widths: list[int]) -> Iterator[Way]:
    """The way with every layout and width that its memory may have."""
    if "memory" not in way.roles.values():
        yield way
        return
    layout = way.x.layout
    plain = "B T d" if layout in {"B d Y X", "B Y X d", "B d T"} else layout
    for other, width in product(dict.fromkeys((plain, layout)), widths):
        sizes = way.x.sizes if "Y" in other.split() else (T_MEMORY,)
        yield way.but(memory=Tokens(other, sizes, width))


def _token_layouts(sketch: Sketch, reading: Reading) -> list[str]:
    """Layouts of the input in the order of likelihood: what is stated, what convolutions take, the rest."""
    owners = set(sketch.parts.values())
    plain = {"B T d", "T B d", "T d", "B d T"}
    found = sorted((one for one in reading.layouts if one in plain), key=lambda one: "B" not in one)
    if "Conv2d" in owners:
        found.insert(0, "B d Y X")
    if "Conv1d" in owners:
        found.append("B d T")
    firsts = [v for path, v in sketch.settings.items() if path.rpartition(".")[2] == "batch_first"]
    if firsts and not {"B T d", "T B d"} & set(found):
        found.insert(0, "B T d" if firsts[0] else "T B d")
    image = re.search(r"\(\s*b\w*\s*,\s*(c|ch\w*|d\w*)\s*,\s*h\w*\s*,\s*w\w*\s*\)", reading.words)
    found += ["B d Y X"] if image else []
    return list(dict.fromkeys([*found, "B T d", "T B d", "B d T", "B d Y X", "B Y X d", "T d"]))


def _sized(sketch: Sketch, layout: str, width: int) -> Iterator[Tokens]:
    """The input in every size that the module may insist on; free sizes first."""
    named = [(path.rpartition(".")[2].lower(), v) for path, v in sketch.settings.items() if type(v) is int]
    sides = [value for name, value in named if _SIDE.fullmatch(name) and 1 < value <= 32]
    if "Y" in layout.split():
        for pair in dict.fromkeys([(4, 6), *((2 * s, 3 * s) for s in sides), *((s, s) for s in sides)]):
            yield Tokens(layout, pair, width)
        return
    held = [w.shape for w in sketch.weights]
    fixed = [shape[1] for shape in held if len(shape) == 3 and shape[0] == 1]
    fixed += [
        shape[-1] for shape in held if len(shape) >= 2 and shape[-1] == shape[-2] and width != shape[-1]
    ]
    fixed += [value for name, value in named if _LENGTH.fullmatch(name)]
    for count in dict.fromkeys([T, *(s * s for s in sides), *fixed, *(n - 1 for n in fixed)]):
        if 1 < count <= 256:
            yield Tokens(layout, (count,), width)


def _of_counts(counts: list[int], layout: str, width: int) -> Iterator[Tokens]:
    """The input in these numbers of tokens: a square, where it is an image."""
    for count in counts:
        side = isqrt(count)
        if "Y" not in layout.split():
            yield Tokens(layout, (count,), width)
        elif side * side == count:
            yield Tokens(layout, (side, side), width)


def _widths(sketch: Sketch, roles: tuple[str, ...]) -> list[int]:
    """Widths that an input may have: what weights of these roles take, then settings, then every weight."""
    named = named_weights(sketch)
    first = [n.weight.shape[_in_axis(n.weight.shape)] for n in named if n.role in roles and n.weight.shape]
    stated = [
        value
        for path, value in sorted(sketch.settings.items(), key=lambda item: item[0].count("."))
        if type(value) is int and _WIDTH.fullmatch(path.rpartition(".")[2].lower())
    ]
    rest = [w.shape[_in_axis(w.shape)] for w in sketch.weights if w.trained and w.shape]
    found = [size for size in dict.fromkeys([*first, *stated, *rest]) if size > 1]
    return found[:6] or [24]


def _in_axis(shape: tuple[int, ...]) -> int:
    """The axis of a weight along which its input lies, as linear layers, norms and convolutions have it."""
    return 1 if len(shape) > 2 else -1


def _d_head(sketch: Sketch, width: int) -> int:
    return d_head_of(sketch) or width // (heads_of(sketch) or 1)


def _no_way(
    sketch: Sketch, inputs: list[dict[str, str]], first: tuple[Way, Answer | None] | None
) -> NoWayError:
    """Say why the likeliest guess failed, which argument is strange, and how a wrapper would look."""
    strange = first[0].strange() if first else [p.name for p in sketch.parameters if p.required]
    given = [n for n in (first[0].roles if first else {}) if first and first[0].roles[n] in {"x", "memory"}]
    names = ", ".join(given) or "x"
    wanted = "".join(f", {name}=..." for name in strange if name not in given)
    if strange or first is None:
        got = f"forward({', '.join(p.name for p in sketch.parameters)})"
        got += f": {', '.join(strange)} has no default and no meaning that is known here" if strange else ""
    else:
        assert first[1] is not None
        got = _stopped(first[0], first[1])
    problem = NoWayError(
        f"{sketch.name} could not be called.",
        expected="an output for each sample, from tokens such as x [B, T, width]",
        got=got,
        hint=f"wrap it: class Checked({sketch.name}): "
        f"forward = lambda self, {names}: {sketch.name}.forward(self, {names}{wanted or ', ...'})",
    )
    problem.line = first[1].failure.line if first and first[1] and first[1].failure else None
    return problem


def _stopped(way: Way, answer: Answer) -> str:
    """What stopped a guess, with what was given."""
    shapes = f"{way.x.layout} with width {way.x.width}"
    if answer.failure is not None:
        return f"{one_line(answer.failure)} (tokens {shapes})"
    found = [tuple(leaf.shape) for leaf in leaves(answer.result)]
    broken = any(not torch.isfinite(leaf).all() for leaf in leaves(answer.result) if leaf.is_floating_point())
    return f"{'NaN or infinity in ' if broken else ''}results of shape {found} (tokens {shapes})"
