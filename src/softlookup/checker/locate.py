"""From a rule to a line: the step that the rule is about, found among the torch calls that a target made.

A rule names steps in ``LINE``, the most telling first. Most are recorded calls, told apart by what flows into them
(``_CALLS``). Some are decided by plain Python and read off the file's text (``_TEXT``). A step that was left out points
at the place where it is missing (``_INSTEAD``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from softlookup.checker.calls import Sketch
from softlookup.checker.dataflow import EXP, FUSED, LOOKED_UP, SOFTMAX, Dataflow, Flow
from softlookup.checker.evidence import Observation
from softlookup.checker.source_lines import SourceLines

_HIDING = frozenset(
    {"masked_fill", "masked_fill_", "where", "add", "add_", "sub", "sub_", "mul", "mul_", "__setitem__", "minimum"}
)
_FACTOR = frozenset({"mul", "mul_", "div", "div_"})
_TRIANGLE = frozenset({"tril", "triu", "tril_", "triu_", "triu_indices", "tril_indices"})
_COMPARE = frozenset({"le", "ge", "lt", "gt", "eq", "ne"})
_REPEAT = frozenset({"repeat", "repeat_interleave", "expand", "tile", "index_select"})
_FILL = frozenset({"masked_fill", "masked_fill_", "where", "__setitem__", "nan_to_num", "nan_to_num_"})
_TURN = frozenset({"bitwise_not", "bitwise_not_", "logical_not", "logical_not_", "bool", "to", "type", "eq", "ne", "sub"})
_JOIN = frozenset({"add", "mul", "bitwise_and", "bitwise_or", "logical_and", "logical_or", "minimum", "sub"})
_SPREAD = frozenset(
    {"unsqueeze", "reshape", "view", "expand", "repeat", "repeat_interleave", "tile", "__getitem__", "permute", "flatten"}
)
_RESTRIDE = frozenset({"as_strided", "set_"})
_CUT = frozenset({"detach", "detach_", "data", "item", "tolist", "numpy"})
_SAFE_TO_CUT = frozenset({"amax", "max", "maximum", "isneginf", "isinf", "isnan", "eq", "all", "any"})
_MERGE = frozenset({"mean", "sum", "amax", "max"})


def _averages(flow: Flow) -> bool:
    """An axis of the weights disappears."""
    return flow.op in _MERGE and flow.on_weights and _rank(flow.record.outputs) < _rank(flow.record.inputs)


def _merges_samples(flow: Flow) -> bool:
    """The first axis, which tells samples apart, is reduced."""
    if flow.op not in _MERGE | {"std", "var", "logsumexp"} or flow.about_masks or not flow.record.inputs:
        return False
    before, after = flow.record.inputs[0], flow.record.outputs[0]
    return len(before) > 1 and after in {before[1:], (1, *before[1:])} and before[0] > 1


def _rank(shapes: tuple[tuple[int, ...], ...]) -> int:
    return len(shapes[0]) if shapes else 0


#: Step -> is this recorded call that step?
_CALLS: dict[str, Callable[[Flow], bool]] = {
    "score": lambda f: f.starts == "scores",
    "scale": lambda f: f.op in _FACTOR and f.has_number and bool(f.holds & {"q", "k"}) and not f.holds & {"v", "weights"},
    "rescale": lambda f: f.op in _FACTOR and f.has_number and any("weights" in source for source in f.sources),
    "hide": lambda f: f.op in _HIDING and f.on_scores and f.meets_mask,
    "settle": lambda f: (f.op in _HIDING and f.on_weights and f.meets_mask) or (f.op in _FILL and "v" in f.holds and _late(f)),
    "fill": lambda f: f.op in _FILL and _late(f),
    "softmax": lambda f: f.op in SOFTMAX and (f.on_scores or f.on_weights or f.starts == "weights"),
    "softmax again": lambda f: f.op in SOFTMAX and f.on_weights,
    "exp": lambda f: f.op in EXP and f.starts == "weights",
    "sum": lambda f: f.op in {"sum", "sum_to_size", "cumsum"} and f.on_weights,
    "divide": lambda f: f.op in {"div", "div_"} and not f.has_number and any("weights" in source for source in f.sources),
    "share": lambda f: f.op in {"div", "div_"} and not f.has_number and f.on_scores,
    "denominator": lambda f: f.op in {"add", "add_"} and f.on_weights,
    "average": _averages,
    "mix": lambda f: "v" in f.holds and any("scores" in s and "v" not in s for s in f.sources),
    "drop": lambda f: f.op in {"dropout", "feature_dropout", "dropout_", "alpha_dropout"},
    "triangle": lambda f: f.op in _TRIANGLE and f.about_masks,
    "compare": lambda f: f.op in _COMPARE and f.about_masks,
    "turn": lambda f: f.op in _TURN and f.about_masks and bool(f.holds),
    "join": lambda f: f.op in _JOIN and f.about_masks and len(f.record.inputs) > 1,
    "spread": lambda f: f.op in _SPREAD and f.holds == {"mask"},
    "inplace": lambda f: f.in_place and bool(f.sources) and len(f.sources[0]) == 1,
    "slice": lambda f: f.op == "__getitem__" and bool(f.holds) and f.holds <= {"k", "v"},
    "repeat_kv_heads": lambda f: f.op in _REPEAT and bool(f.holds) and f.holds <= {"k", "v"},
    "restride": lambda f: f.op in _RESTRIDE and bool(f.holds & LOOKED_UP),
    "over_samples": _merges_samples,
}

#: What one fused call carries out.
_FUSED_STEPS = ("score", "scale", "hide", "visible", "normalize", "settle", "mix", "drop")

#: Where a step is missing that was not carried out: near these.
_INSTEAD = {
    "visible": ("hide", "normalize", "score"),
    "hide": ("visible", "normalize", "score"),
    "scale": ("score",),
    "normalize": ("score",),
    "settle": ("hide", "normalize"),
    "repeat_kv_heads": ("score",),
    "mix": ("normalize",),
    "drop": ("normalize",),
    "turn": ("visible", "hide"),
    "fill": ("hide",),
    "join": ("hide",),
    "inplace": ("hide",),
    "score": ("mix",),
    "sum": ("normalize",),
    "exp": ("normalize",),
}


def _late(flow: Flow) -> bool:
    return any("scores" in source for source in flow.sources)


def line_of(steps: Iterable[str], seen: Observation, sketch: Sketch, roles: Mapping[str, str] | None = None) -> int | None:
    """Return the line for the first of these steps that was carried out, or where it is missing.

    roles: parameter name -> role, such as "mask" or "causal"; a step may be a test that asks about one of them
    """
    return _Search(seen, sketch, roles or {}).line_of(tuple(steps))


class _Search:
    """One run of a target, its text, and how a step is found in them."""

    def __init__(self, seen: Observation, sketch: Sketch, roles: Mapping[str, str]) -> None:
        self.flow = Dataflow(seen)
        self.text = SourceLines(sketch)
        self.sketch = sketch
        self.roles = roles
        self.lines = step_lines(self.flow)

    def line_of(self, steps: tuple[str, ...]) -> int | None:
        for step in steps:
            found = _TEXT[step](self) if step in _TEXT else self._carried_out(step)
            if found is not None:
                return found
        for step in steps:
            for other in _INSTEAD.get(step, ()):
                if other in self.lines:
                    return self.lines[other][0]
        return self.flow.flows[-1].line if self.flow.flows else self.sketch.line

    def _carried_out(self, step: str) -> int | None:
        if step in self.lines:
            return self.lines[step][0]
        if step in {"visible", "repeat_kv_heads"} and "slice" in self.lines:
            line = self.lines["slice"][0]
            return self.text.number_behind(line) or line
        return None

    def names(self, role: str) -> set[str]:
        """The parameters with this role; where an argument has another name inside, that too."""
        return {name for name, one in self.roles.items() if one == role}

    def dropped(self) -> int | None:
        """A result that nothing reads, on a line that throws it away: ``scores.masked_fill(hidden, -inf)``."""
        for flow in self.flow.flows:
            if not self.flow.readers(flow) and not flow.in_place and self.text.drops(flow.line):
                return flow.line
        return None

    def overwritten(self) -> int | None:
        """A mask that was worked out and forgotten when its name was given anew."""
        for flow in self.flow.flows:
            if flow.about_masks and flow.op in _TRIANGLE | _COMPARE | _JOIN and not self.flow.readers(flow):
                found = self.text.overwritten(flow.line)
                if found:
                    return found
        return None

    def both_asked(self) -> int | None:
        """One test that asks about the mask and about the causal argument: one of the two is lost there."""
        return self.text.branch(self.names("causal"), self.names("mask") | self.names("bias"))

    def unwanted(self) -> int | None:
        """The test that lets the causal rule in although it was not asked for."""
        lines = [line for step in ("triangle", "compare", "hide") for line in self.lines.get(step, [])]
        guards = (self.text.guard(line, self.names("causal")) for line in lines)
        return next((guard for guard in guards if guard), None)

    def window(self) -> int | None:
        """The comparison with the window, by that name or by one worked out from it."""
        names = self.names("window")
        for asked in (names, self.text.following(names)):
            for line in self.lines.get("compare", []):
                if self.text.mentions(line, asked):
                    return line
        return None

    def signed(self) -> int | None:
        """The last work on what is added to the scores: its sign is decided there."""
        for flow in self.flow.flows:
            if _CALLS["hide"](flow) and flow.op in {"add", "add_", "sub", "sub_"}:
                made = [f for f in self.flow.behind(flow) if f.about_masks and f.op in {"mul", "neg", "sub", "div"}]
                return made[0].line if made else flow.line
        return None

    def rebound(self, *roles: str) -> int | None:
        """An argument that is given another value, whatever came in."""
        return self.text.rebound(set().union(*(self.names(role) for role in roles)))

    def picked(self) -> int | None:
        """Keys picked by index tensors: where those indices were made."""
        for flow in self.flow.flows:
            if flow.op in {"__getitem__", "index_select", "gather"} and "k" in flow.holds and len(flow.sources) > 1:
                made = [maker for maker in self.flow.makers(flow) if maker.about_masks]
                return made[-1].line if made else flow.line
        return None

    def cut(self) -> int | None:
        """Where a gradient ends, other than on the way to a maximum, which needs none."""
        for flow in self.flow.flows:
            readers = {reader.op for reader in self.flow.readers(flow)}
            if flow.op in _CUT and flow.holds & LOOKED_UP and not (readers and readers <= _SAFE_TO_CUT):
                return flow.line
        return self.text.backward()

    def alias(self) -> int | None:
        """Between the last work on the scores and the mix: a step of which only the name is left."""
        before = [line for step in ("score", "scale", "hide") for line in self.lines.get(step, [])]
        mix = self.lines.get("mix", [])
        return self.text.alias(min(before), mix[0]) if before and mix else None

    def bare_exp(self) -> int | None:
        """An exponential of scores from which nothing was subtracted."""
        for flow in self.flow.flows:
            if _CALLS["exp"](flow) and not any(maker.op in {"sub", "sub_"} for maker in self.flow.makers(flow)):
                return flow.line
        return None

    def last(self, step: str) -> int | None:
        return self.lines[step][-1] if step in self.lines else None


#: Step -> how it is found with the help of the file's text, or of several calls.
_TEXT: dict[str, Callable[[_Search], int | None]] = {
    "dropped": _Search.dropped,
    "overwritten": _Search.overwritten,
    "both asked": _Search.both_asked,
    "unwanted": _Search.unwanted,
    "window": _Search.window,
    "window rebound": lambda search: search.rebound("window"),
    "scale rebound": lambda search: search.rebound("scale"),
    "picked": _Search.picked,
    "signed": _Search.signed,
    "cut": _Search.cut,
    "alias": _Search.alias,
    "bare exp": _Search.bare_exp,
    "blocks": lambda search: search.text.blocks(),
    "last denominator": lambda search: search.last("denominator"),
    "last divide": lambda search: search.last("divide"),
}


def step_lines(flow: Dataflow) -> dict[str, list[int]]:
    """Return, for each step, the lines of the calls that carry it out, in order."""
    lines: dict[str, list[int]] = {}
    for one in flow.flows:
        if one.starts == "fused":
            steps: Iterable[str] = _FUSED_STEPS
        else:
            steps = (step for step, is_step in _CALLS.items() if is_step(one))
        for step in steps:
            lines.setdefault(step, []).append(one.line)
    lines["normalize"] = lines.get("normalize", []) + (lines.get("softmax") or lines.get("sum") or lines.get("exp") or [])
    lines["visible"] = lines.get("visible", []) + (lines.get("triangle") or lines.get("compare") or [])
    return {step: found for step, found in lines.items() if found}
