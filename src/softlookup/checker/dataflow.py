"""What flows into each torch call that a target made: which arguments, and how far the lookup has come.

A recorded call names the tensors that it reads and writes. From these follows, for every call, which
arguments its tensors were made from, whether they are scores (q has met k) or weights (the scores went
through a softmax), what was made before them and who reads the result.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from softlookup.checker.calls import Recorded
from softlookup.checker.evidence import Observation

FUSED = "scaled_dot_product_attention"
#: Calls that look up from the first to the last step; some of them project as well.
_WHOLE = frozenset({FUSED, "multi_head_attention_forward", "_native_multi_head_attention"})
SOFTMAX = frozenset({"softmax", "log_softmax", "softmin", "sigmoid"})
EXP = frozenset({"exp", "exp_", "exp2", "logsumexp"})

#: The arguments that are looked up with; every other tensor is about who may look at whom.
LOOKED_UP = frozenset({"q", "k", "v", "qkv", "kv"})

#: What one weight of a module may hold, in the order in which it is mostly cut.
FUSED_ROLES = ("qkv", "kv")
#: Inputs of a module, before any projection.
INPUTS = frozenset({"target", "memory"})
#: What weights may be multiplied with: values, keys taken for values, an input that nothing projected.
_MIXED = frozenset({"k", "v"}) | INPUTS
_CUTS = frozenset(["chunk", "split", "split_with_sizes", "unbind", "tensor_split"])
_PICKS = frozenset(["__getitem__", "select", "narrow"])
_JOINS = frozenset(["cat", "concat", "stack", "hstack", "vstack"])

#: Calls that take only the shape or the dtype of a second tensor.
_BORROW_SHAPE = frozenset({"expand_as", "view_as", "reshape_as", "type_as", "to"})
_PRODUCTS = frozenset(
    ["matmul", "bmm", "einsum", "baddbmm", "addmm", "mul", "tensordot", "inner", "mv", "dot"]
)


@dataclass(frozen=True)
class Flow:
    """One recorded call and what its tensors hold.

    Contents are names of arguments ("q", "k", "v", "mask", ...) and the stages "scores" and "weights".
    """

    record: Recorded
    sources: tuple[frozenset[str], ...]  # contents of each tensor read
    holds: frozenset[str]  # contents of the result
    starts: str = ""  # "scores", "weights" or "fused": the stage that begins with this call

    @property
    def op(self) -> str:
        """Name of the torch function."""
        return self.record.op

    @property
    def line(self) -> int:
        """Line of the target's file."""
        return self.record.line

    @property
    def about_masks(self) -> bool:
        """Nothing that is looked up flows in: the call decides who may look at whom."""
        return not self.holds & LOOKED_UP

    def reads(self, content: str) -> bool:
        """Say whether one of the tensors read holds this."""
        return any(content in source for source in self.sources)

    @property
    def looked_up_only(self) -> bool:
        """Made from queries, keys or values alone, which have not met yet."""
        return bool(self.holds & LOOKED_UP) and self.holds <= LOOKED_UP

    @property
    def on_scores(self) -> bool:
        """Changes scores that are scores already."""
        return self.reads("scores") and not self.holds & {"weights", "v"}

    @property
    def on_weights(self) -> bool:
        """Changes weights that are weights already, and no values yet."""
        return self.reads("weights") and "v" not in self.holds

    @property
    def meets_other(self) -> bool:
        """One of the tensors, and no mere number, was not made from q, k or v."""
        shaped = zip(self.sources, self.record.inputs, strict=False)
        return any(not source & LOOKED_UP and shape != () for source, shape in shaped)

    @property
    def meets_mask(self) -> bool:
        """Scores or weights meet a tensor that was not made from q, k or v: a mask or a bias."""
        return self.meets_other or self.op.startswith("masked_fill") or self.op in {"where", "__setitem__"}

    @property
    def rotates(self) -> bool:
        """Queries or keys, before they meet, are multiplied by a table: cosines or sines of positions."""
        shaped = zip(self.sources, self.record.inputs, strict=False)
        by_table = any(not source and len(shape) > 1 and shape[-1] > 1 for source, shape in shaped)
        return self.op in {"mul", "mul_"} and self.looked_up_only and "v" not in self.holds and by_table

    @property
    def in_place(self) -> bool:
        """Changes a tensor instead of making one."""
        return self.op == "__setitem__" or (self.op.endswith("_") and not self.op.endswith("__"))

    @property
    def has_number(self) -> bool:
        """A plain number, or a tensor without dimensions, takes part."""
        return bool(self.record.numbers) or () in self.record.inputs


class Dataflow:
    """The recorded calls of one run, with who makes what and who reads it."""

    def __init__(self, seen: Observation) -> None:
        self.flows = list(_flows(seen))
        self._maker = {serial: flow for flow in self.flows for serial in flow.record.writes}
        self._readers: dict[int, list[Flow]] = {}
        for flow in self.flows:
            for serial in flow.record.reads:
                self._readers.setdefault(serial, []).append(flow)

    def readers(self, flow: Flow) -> list[Flow]:
        """Return the calls that read a result of this one."""
        return [reader for serial in flow.record.writes for reader in self._readers.get(serial, [])]

    def makers(self, flow: Flow) -> list[Flow]:
        """Return the calls whose results this one reads."""
        return [self._maker[serial] for serial in flow.record.reads if serial in self._maker]

    def upstream(self, serial: int) -> list[Flow]:
        """Return every call that led to one tensor, in order."""
        made = self._maker.get(serial)
        return [] if made is None else [*reversed(self.behind(made)), made]

    def behind(self, flow: Flow) -> list[Flow]:
        """Return every call that led to this one, the latest first."""
        found: dict[int, Flow] = {}
        waiting = self.makers(flow)
        while waiting:
            maker = waiting.pop()
            if id(maker) not in found:
                found[id(maker)] = maker
                waiting += self.makers(maker)
        return [earlier for earlier in reversed(self.flows) if id(earlier) in found and earlier is not flow]


def _flows(seen: Observation) -> Iterable[Flow]:
    """Yield each call in order with its contents."""
    contents: dict[int, frozenset[str]] = {serial: frozenset({role}) for serial, role in seen.serials.items()}
    packed = not {"k", "kv"} & set(seen.serials.values())
    picked: dict[int, int] = {}  # how many pieces were taken from one tensor so far
    for record in seen.recorded:
        sources = tuple(contents.get(serial, frozenset()) for serial in record.reads)
        flow = _flow(record, sources, packed and not any("k" in source for source in sources))
        contents |= dict.fromkeys(record.writes, _named_as_one(flow))
        fused = next((word for word in FUSED_ROLES if flow.holds == {word}), None)
        if fused and record.op in _CUTS and len(record.writes) == len(fused):
            contents |= {s: frozenset({role}) for s, role in zip(record.writes, fused, strict=True)}
        elif fused and record.op in _PICKS:
            place = picked.get(record.reads[0], 0)
            picked[record.reads[0]] = place + 1
            contents |= dict.fromkeys(record.writes, frozenset({fused[min(place, len(fused) - 1)]}))
        yield flow


def _named_as_one(flow: Flow) -> frozenset[str]:
    """Projections that the code lays side by side itself are one fused projection from then on."""
    parts = [next(iter(source)) for source in flow.sources if len(source) == 1]
    if flow.op in _JOINS and len(parts) == len(flow.sources):
        order = list(dict.fromkeys(parts))
        if "".join(order) in FUSED_ROLES and len(order) > 1:
            return frozenset({"".join(order)})
    return flow.holds


def _flow(record: Recorded, sources: tuple[frozenset[str], ...], packed: bool) -> Flow:
    if record.op.endswith("_like") or record.op.startswith("new_"):
        return Flow(record, sources, frozenset())
    if record.op in _BORROW_SHAPE:
        return Flow(record, sources, sources[0] if sources else frozenset())
    holds = frozenset().union(*sources)
    if record.op in _WHOLE:
        return Flow(record, sources, holds | {"q", "k", "v", "scores", "weights"}, "fused")
    if holds & INPUTS and holds & LOOKED_UP and "scores" not in holds:  # an input goes through a projection
        return Flow(record, sources, holds - INPUTS)
    if _is_product(record, sources, packed):
        if not any("scores" in source for source in sources):
            # What the queries meet first stands for the keys, also where it was cut or projected as values.
            return Flow(record, sources, (holds - {"v"}) | {"q", "k", "scores"}, "scores")
        return Flow(record, sources, holds | {"v"})
    if record.op in SOFTMAX | EXP and "scores" in holds and "v" not in holds:
        return Flow(record, sources, holds | {"weights"}, "weights")
    return Flow(record, sources, holds)


def _is_product(record: Recorded, sources: tuple[frozenset[str], ...], packed: bool) -> bool:
    """Say whether q meets k here for the first time, or scores meet what is mixed."""
    fresh = [source for source in sources if "scores" not in source]
    if packed:  # one tensor holds q, k and v: its first product with itself is the score, the next the mix
        taking_part = [source for source in sources if source & {"q", "qkv"}]
        return (
            record.op in _PRODUCTS and len(taking_part) > 1 and any(source in fresh for source in taking_part)
        )
    if len(fresh) < len(sources):  # whatever the scores are multiplied with stands for the values
        return record.op in _PRODUCTS and any(source & _MIXED for source in fresh)
    asking = [source for source in sources if "q" in source]
    answering = [source for source in sources if source & {"k", "v"}]
    met = bool(asking and answering) and not any("q" in source for source in answering)
    return met and record.op not in {"cat", "stack"}
