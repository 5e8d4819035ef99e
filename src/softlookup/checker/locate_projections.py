"""Where the steps around the lookup are in one run of a target: projections, cuts, what goes where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from softlookup.checker.call_steps import CALLS, step_lines
from softlookup.checker.calls import Sketch
from softlookup.checker.dataflow import FUSED, INPUTS, LOOKED_UP, Dataflow, Flow
from softlookup.checker.evidence import Observation
from softlookup.checker.source_lines import SourceLines


class Search:
    """One run of a target, its text, and how steps around the lookup are found in them."""

    def __init__(self, seen: Observation, sketch: Sketch, roles: Mapping[str, str]) -> None:
        self.seen = seen
        self.flow = Dataflow(seen)
        self.text = SourceLines(sketch)
        self.sketch = sketch
        self.roles = roles
        self.lines = step_lines(self.flow)

    def projected_again(self) -> int | None:
        """Where a weight is applied that was applied before, to make something else."""
        used: set[int] = set()
        for flow in self.calls("project"):
            weights = {serial for serial in flow.record.reads if self.seen.serials.get(serial) in LOOKED_UP}
            if weights & used:
                return self.asked_by(flow)
            used |= weights
        return None

    def asked_by(self, flow: Flow) -> int:
        """The line of a call; of the line that asked for it where one helper does the same for several."""
        lines = (flow.line, *flow.record.via)
        others = [(f.line, *f.record.via) for f in self.flow.flows if f.op == flow.op]
        for depth in range(1, len(lines)):
            if any(other[:depth] == lines[:depth] and other[depth:] != lines[depth:] for other in others):
                return lines[depth]
        return flow.line

    def crossed(self) -> int | None:
        """Where an input goes through the projection of the other; in a part of a layer, who gave it that."""
        asks, answers = list(self.calls("from memory")), list(self.calls("from target"))
        if not asks and not answers:
            return None
        flow = (answers or asks)[0]
        lines = (flow.line, *flow.record.via)
        met = {content for f in self.calls("project") for source in f.sources for content in source}
        given_wrong = asks or "memory" not in met  # else the part has both inputs, and mixes them up itself
        outside = next((line for line in lines if self.text.in_target(line)), None)
        return outside if given_wrong and outside and outside != flow.line else self.asked_by(flow)

    def fused_cut(self) -> int | None:
        """Where a fused projection is cut; by a helper: the last line that asks it for a piece."""
        cuts = list(self.calls("cut fused"))
        if not cuts:
            return None
        last = self.asked_by(cuts[-1])
        return cuts[0].line if last == cuts[-1].line else last

    def raw_values(self) -> int | None:
        """An input that reaches the mix through no projection: its first call, or who asked for that."""
        mixing = (flow for flow in self.flow.flows if flow.op == FUSED or CALLS["mix"](flow))
        for flow in mixing:
            for serial, source in zip(flow.record.reads, flow.sources, strict=True):
                if source and source <= INPUTS:
                    return next(map(self.asked_by, self.flow.upstream(serial)), None)
        return None

    def scale_kept(self) -> int | None:
        """Where the factor was worked out, when a part keeps it."""
        line = self.carried_out("scale")
        return self.text.root_kept(line) if line else None

    def returned(self, *, outermost: bool = False) -> int | None:
        """Where the target hands back its result: the last ``return`` in reach of the last call.

        outermost: that of the function that was called, and not that of a part of it
        """
        last = self.flow.flows[-1] if self.flow.flows else None
        own = [line for line in (last.line, *last.record.via) if self.text.in_target(line)] if last else []
        return self.text.returned_after(own[-1 if outermost else 0]) if own else None

    def keys_taken(self) -> int | None:
        """Keys on their way to the mix: the first call that those that are compared do not go through."""
        for flow in self.flow.flows:
            if flow.op == FUSED and len(flow.record.reads) > 2:
                compared, mixed = set(flow.record.reads[1:2]), flow.record.reads[2]
            elif CALLS["mix"](flow) and {"k"} in flow.sources:
                scores = next(self.calls("score"), None)
                compared = set(scores.record.reads) if scores else set()
                mixed = flow.record.reads[flow.sources.index(frozenset({"k"}))]
            else:
                continue
            shared = {id(step) for serial in compared for step in self.flow.upstream(serial)}
            return next((step.line for step in self.flow.upstream(mixed) if id(step) not in shared), None)
        return None

    def carried_out(self, step: str) -> int | None:
        """The first recorded call that is this step, or the plain number that picks keys or heads."""
        if step in self.lines:
            return self.lines[step][0]
        if step in {"visible", "repeat_kv_heads"} and "slice" in self.lines:
            line = self.lines["slice"][0]
            return self.text.number_behind(line) or line
        return None

    def calls(self, step: str) -> Iterator[Flow]:
        """Yield the recorded calls that are this step."""
        return (flow for flow in self.flow.flows if CALLS[step](flow))
