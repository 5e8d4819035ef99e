"""From a rule to a line: the step that the rule is about, found among the torch calls that a target made.

A rule names steps in ``LINE``, the most telling first. Most are recorded calls (call_steps.py). Some take
several calls together, or the file's text where plain Python decides (``_ASKED``). A step that was left out
points at the place where it is missing (``_INSTEAD``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain

from softlookup.checker.call_steps import CALLS
from softlookup.checker.calls import Sketch
from softlookup.checker.dataflow import LOOKED_UP
from softlookup.checker.docstrings import shapes_in
from softlookup.checker.evidence import Observation
from softlookup.checker.locate_projections import Search
from softlookup.checker.written_calls import as_written

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
    "dropping": ("drop", "normalize"),
    "turn": ("visible", "hide"),
    "fill": ("hide",),
    "join": ("hide",),
    "inplace": ("hide",),
    "score": ("mix",),
    "sum": ("normalize",),
    "exp": ("normalize",),
    "cut fused": ("split", "project"),
    "over heads": ("merge", "mix"),
    "merge": ("mix",),
    "split": ("score",),
    "from target": ("from memory", "project"),
    "over tokens": ("project", "score"),
}

_ADD = frozenset(["add", "add_"])
_MOVES = frozenset(["permute", "transpose", "movedim", "swapaxes"])
#: A maximum needs no gradient, and a test has none.
_SAFE_TO_CUT = frozenset(["amax", "max", "maximum", "isneginf", "isinf", "isnan", "eq", "all", "any"])


def line_of(
    steps: Iterable[str], seen: Observation, sketch: Sketch, roles: Mapping[str, str] | None = None
) -> int | None:
    """Return the line for the first of these steps that was carried out, or where it is missing.

    roles: parameter name -> role, such as "mask" or "causal": some steps are tests that ask about these
    """
    if not any(call.line for call in seen.recorded):  # NumPy and JAX: no call is seen
        seen = as_written(seen, sketch, roles or {})
    return _Search(seen, sketch, roles or {}).line_of(tuple(steps)) or None  # 0: it has no line


class _Search(Search):
    """One run of a target, its text, and how a step is found in them."""

    def line_of(self, steps: tuple[str, ...]) -> int | None:
        for step in steps:
            found = _ASKED[step](self) if step in _ASKED else self.carried_out(step)
            if found is not None:
                return found
        for step in steps:
            for other in _INSTEAD.get(step, ()):
                if other in self.lines:
                    return self.lines[other][0]
        return self.flow.flows[-1].line if self.flow.flows else self.sketch.line

    def last(self, step: str) -> int | None:
        """The last recorded call that is this step."""
        return self.lines[step][-1] if step in self.lines else None

    def names(self, *roles: str) -> set[str]:
        """Return the parameters with one of these roles."""
        return {name for name, role in self.roles.items() if role in roles}

    def dropped(self) -> int | None:
        """A result that nothing reads on a line that throws it away: ``scores.masked_fill(hidden, -inf)``."""
        unread = (f.line for f in self.flow.flows if not self.flow.readers(f) and not f.in_place)
        return next((line for line in unread if self.text.drops(line)), None)

    def overwritten(self) -> int | None:
        """Where a mask that was worked out is forgotten: its name is given anew."""
        work = (flow for step in ("triangle", "compare", "join") for flow in self.calls(step))
        found = (self.text.overwritten(flow.line) for flow in work if not self.flow.readers(flow))
        return next((line for line in found if line), None)

    def both_asked(self) -> int | None:
        """One test that asks about the mask and about the causal argument: one of the two is lost there."""
        return self.text.branch(self.names("causal"), self.names("mask", "bias"))

    def unwanted(self) -> int | None:
        """The test that lets the causal rule in although nobody asked, or the call that asks for it."""
        lines = [line for step in ("triangle", "compare", "hide") for line in self.lines.get(step, [])]
        guards = (self.text.guard(line, self.names("causal")) for line in lines)
        asked = (self.text.asked_from(line, "causal", "window") for line in lines)
        return next((found for found in chain(guards, asked) if found), None)

    def window(self) -> int | None:
        """The comparison with the window, by its own name or by one worked out from it."""
        held = {path.rpartition(".")[2] for path in self.sketch.settings}  # as in self.window_size
        names = self.names("window") | {name for name in held if "window" in name}
        compared = self.lines.get("compare", [])
        found = (
            line
            for asked in (names, self.text.following(names))
            for line in compared
            if self.text.mentions(line, asked)
        )
        return next(found, None)

    def picked(self) -> int | None:
        """Keys picked by index tensors: where those indices were made."""
        for flow in self.calls("pick"):
            made = [maker for maker in self.flow.makers(flow) if maker.about_masks]
            return made[-1].line if made else flow.line
        return None

    def samples_folded(self) -> int | None:
        """Where another axis than that of the samples becomes the first one of the output."""
        B = self.seen.case.q.shape[0]
        for flow in self.calls("merge"):
            before, after = flow.record.inputs[0], flow.record.outputs[0]
            if before[0] != B == after[0] and len(before) > 2:
                moved = [maker for maker in self.flow.makers(flow) if maker.op in _MOVES]
                return moved[-1].line if moved else flow.line
        return None

    def signed(self) -> int | None:
        """The last work on what is added to the scores: its sign is decided there."""
        for flow in self.calls("add"):
            behind = self.flow.behind(flow)
            made = [earlier for earlier in behind if CALLS["sign"](earlier)]
            if made and made[0].op == "mul" and made[0].line != flow.line:  # slopes times a difference
                counted = any(earlier.op == "abs" for earlier in behind)  # without its sign
                # A distance counts backwards by its name: then the slopes have the wrong sign.
                subs = [one for one in made if one.op == "sub" and not self.text.makes(one.line, "dist")]
                made = made if counted else subs or made
            return made[0].line if made else flow.line
        return None

    def bare_exp(self) -> int | None:
        """An exponential of scores from which nothing was subtracted."""
        for flow in self.calls("exp"):
            if not any(maker.op in {"sub", "sub_"} for maker in self.flow.makers(flow)):
                return flow.line
        return None

    def running_sum(self) -> int | None:
        """The line that adds most often to what it made before: a sum that is rounded after every term."""
        again: dict[int, int] = {}
        for flow in self.flow.flows:
            if flow.op not in _ADD or not flow.reads("weights"):
                continue
            makers = self.flow.makers(flow)  # or theirs: total * shrink + block
            earlier = makers + [before for maker in makers for before in self.flow.makers(maker)]
            if any(one.op in _ADD and one.line == flow.line for one in earlier):
                again[flow.line] = again.get(flow.line, 0) + 1
        return max(again, key=lambda line: (again[line], line), default=None)

    def parting(self) -> int | None:
        """The test where two paths of the code part; the probe is called "path-KIND-SWITCH"."""
        path, _, switch = self.seen.probe.partition("-")[2].partition("-")
        if not self.seen.probe.startswith("path-") or not path:
            return None
        if self.seen.output is None:  # an answer of another shape: the test alone does not show it
            return self.returned(outermost=True)
        if switch == "training mode":
            return self.text.branch({"training"})
        return self.text.branch({switch} if switch.isidentifier() else self.names("mask", "bias"))

    def rotation_called(self) -> int | None:
        """Where a rotation counts along another axis than it says; else where it is called or done."""
        rotated = self.carried_out("rotate")
        if not rotated:
            return None
        says, counted = self.text.axes_counted(rotated)
        axes = next((axes for axes in shapes_in(says) if "T" in axes), ())
        wrong = (line for line, axis in counted if axes and axis in range(len(axes)) and axes[axis] != "T")
        return next(wrong, None) or self.text.caller(rotated) or rotated

    def reordered(self) -> int | None:
        """Where features of keys change their order and those of queries do not, or the reverse."""
        moved: dict[int, set[str]] = {}
        for flow in self.calls("reorder"):
            moved.setdefault(flow.line, set()).update(flow.holds)
        return next((line for line, kinds in moved.items() if kinds in ({"q"}, {"k"})), None)

    def alias(self) -> int | None:
        """Between the score and the mix, ``weights = scores``: a step of which only the name is left."""
        scored, mixed = self.carried_out("score"), self.carried_out("mix")
        return self.text.alias(scored, mixed) if scored and mixed else None

    def cut(self) -> int | None:
        """Where a gradient ends that is needed, or where it is written by hand."""
        for flow in self.calls("cut"):
            readers = {reader.op for reader in self.flow.readers(flow)}
            if not readers or not readers <= _SAFE_TO_CUT:
                return flow.line
        made = (flow.line for flow in self.flow.flows if flow.holds & LOOKED_UP)
        without = (self.text.without_gradients(line) for line in made)
        return next((line for line in without if line), None) or self.text.backward()


#: Step -> how it is found when no single recorded call is that step.
_ASKED: dict[str, Callable[[_Search], int | None]] = {
    "dropped": _Search.dropped,
    "overwritten": _Search.overwritten,
    "both asked": _Search.both_asked,
    "unwanted": _Search.unwanted,
    "window": _Search.window,
    "window rebound": lambda search: search.text.rebound(search.names("window")),
    "scale rebound": lambda search: search.text.rebound(search.names("scale")),
    "picked": _Search.picked,
    "signed": _Search.signed,
    "bare exp": _Search.bare_exp,
    "running sum": _Search.running_sum,
    "parting": _Search.parting,
    "alias": _Search.alias,
    "rotation called": _Search.rotation_called,
    "reordered": _Search.reordered,
    "cut": _Search.cut,
    "skipped with a cache": lambda search: search.text.skipped(
        search.names("cache"), {flow.line for flow in search.flow.flows}
    ),
    "sliced": lambda search: search.lines["slice"][0] if "slice" in search.lines else None,
    "samples folded": _Search.samples_folded,
    "target masked": lambda search: search.text.first_use(search.names("target_mask")),
    "blocks": lambda search: search.text.blocks(),
    "projected again": _Search.projected_again,
    "raw values": _Search.raw_values,
    "scale kept": _Search.scale_kept,
    "crossed": _Search.crossed,
    "fused cut": _Search.fused_cut,
    "keys taken": _Search.keys_taken,
    "returned": _Search.returned,
    "last": lambda search: search.flow.flows[-1].line if search.flow.flows else None,
    "last fill": lambda search: search.last("fill"),
    "last denominator": lambda search: search.last("denominator"),
    "last divide": lambda search: search.last("divide"),
}
