"""Which recorded call is which step of the lookup: one line a step, told by what flows into the call."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from softlookup.checker.dataflow import EXP, INPUTS, LOOKED_UP, SOFTMAX, Dataflow, Flow

_ADD = frozenset(["add", "add_", "sub", "sub_"])
_TIMES = frozenset(["mul", "mul_", "div", "div_"])
_DIVIDE = frozenset(["div", "div_"])
_SUM = frozenset(["sum", "sum_to_size", "cumsum"])
_FILL = frozenset(["masked_fill", "masked_fill_", "where", "__setitem__", "nan_to_num", "nan_to_num_"])
_HIDING = _ADD | frozenset(["masked_fill", "masked_fill_", "where", "__setitem__", "mul", "mul_", "minimum"])
_TRIANGLE = frozenset(["tril", "triu", "tril_", "triu_", "triu_indices", "tril_indices"])
_COMPARE = frozenset(["le", "ge", "lt", "gt", "eq", "ne"])
_REPEAT = frozenset(["repeat", "repeat_interleave", "expand", "tile", "index_select"])
_TURN = frozenset(
    ["bitwise_not", "bitwise_not_", "logical_not", "logical_not_", "bool", "to", "type", "eq", "ne", "sub"]
)
_JOIN = frozenset(["add", "mul", "sub", "bitwise_and", "bitwise_or", "logical_and", "logical_or", "minimum"])
_SPREAD = _REPEAT | frozenset(["unsqueeze", "reshape", "view", "__getitem__", "permute", "flatten"])
_DROPOUT = frozenset(["dropout", "dropout_", "feature_dropout", "alpha_dropout"])
_MERGE = frozenset(
    ["mean", "sum", "amax", "max", "std", "var", "var_mean", "logsumexp", "norm", "linalg_vector_norm"]
)
_PICK = frozenset(["__getitem__", "index_select", "gather"])
_CUT = frozenset(["detach", "detach_", "data", "item", "tolist", "numpy"])

_RESHAPE = frozenset(["view", "reshape", "unflatten", "flatten", "cat"])
_CUT_FUSED = frozenset(
    ["chunk", "split", "unbind", "__getitem__", "view", "reshape", "tensor_split", "permute"]
)
_LAY_OUT = frozenset(["repeat_interleave", "repeat", "cat", "concat", "stack", "tile"])
_PROJECT = frozenset(["linear", "matmul", "einsum", "conv1d", "conv2d", "addmm", "bmm", "tensordot"])

#: What one fused call carries out.
_FUSED_STEPS = ("score", "scale", "hide", "visible", "normalize", "settle", "mix", "drop")


def _made_of(flow: Flow, *contents: str) -> bool:
    """The result holds something, and nothing but these."""
    return bool(flow.holds) and flow.holds <= set(contents)


def _rate(flow: Flow) -> float:
    """At which rate a dropout, or a fused call, is told to drop."""
    record = flow.record
    said = record.options.get("p") or record.options.get("dropout_p")
    if said is not None:
        return float(said) if re.fullmatch(r"[\d.e-]+", said) else 0.0
    if flow.op in _DROPOUT or (flow.starts == "fused" and "scale" not in record.options):
        return next(iter(record.numbers), 0.0)
    return 0.0


def _scales(flow: Flow) -> bool:
    return flow.op in _TIMES and flow.has_number


def _shares_out(flow: Flow) -> bool:
    """One tensor is divided by another, as hand-written softmax ends."""
    return flow.op in _DIVIDE and not flow.has_number


def _settles(flow: Flow) -> bool:
    """The weights, or the output, are filled where a row sees nothing."""
    if "v" in flow.holds:
        return flow.op in _FILL and flow.reads("scores")
    return flow.on_weights and (flow.op.startswith("nan_to_num") or (flow.op in _HIDING and flow.meets_mask))


def _averages(flow: Flow) -> bool:
    """An axis of the weights disappears."""
    record = flow.record
    return flow.op in {"mean", "sum"} and flow.on_weights and len(record.outputs[0]) < len(record.inputs[0])


def _merges_samples(flow: Flow) -> bool:
    """The first axis, which tells samples apart, is reduced."""
    if flow.op == "batch_norm":
        return True
    if flow.op not in _MERGE or not flow.holds & (LOOKED_UP | INPUTS):
        return False
    before, after = flow.record.inputs[0], flow.record.outputs[0]
    return len(before) > 1 and before[0] > 1 and after in {before[1:], (1, *before[1:])}


def _merges_tokens(flow: Flow) -> bool:
    """An axis between the samples and the features is reduced, before queries and keys have met."""
    if flow.op not in _MERGE or not flow.holds & (LOOKED_UP | INPUTS) or flow.holds & {"scores", "weights"}:
        return False
    before, after = flow.record.inputs[0], flow.record.outputs[0]
    if len(after) == len(before) > 2:
        return after[1:-1] != before[1:-1]
    return len(before) > 2 and after not in {before[:-1], before[1:]}


def _mixed(flow: Flow) -> bool:
    """The values are in their shares."""
    return "v" in flow.holds and bool(flow.holds & {"weights", "scores"})


def _wider(flow: Flow) -> bool:
    """The last axis of a table gets longer: every angle stands for several features."""
    before, after = flow.record.inputs[:1], flow.record.outputs[:1]
    return bool(before and after and before[0] and after[0]) and after[0][-1] > before[0][-1] > 1


def _swaps_pairs(flow: Flow) -> bool:
    """Features that lie as pairs, [..., d / 2, 2] or [..., 2, d / 2], change into the other form."""
    before, after = flow.record.inputs[0], flow.record.outputs[0]
    return len(before) > 4 and 2 in before[-2:] and after[-2:] == before[:-3:-1] != before[-2:]


def _narrower(flow: Flow) -> bool:
    """The last axis gets shorter and an earlier one longer: heads go into the batch, [B * H, T, d]."""
    before, after = flow.record.inputs[0], flow.record.outputs[0]
    return len(before) == len(after) > 1 and after[-1] < before[-1]


def _rank(flow: Flow) -> int:
    """How many axes a call adds."""
    record = flow.record
    return len(record.outputs[0]) - len(record.inputs[0]) if record.inputs and record.outputs else 0


#: Step -> is this recorded call that step?
CALLS: dict[str, Callable[[Flow], bool]] = {
    "score": lambda f: f.starts == "scores",
    "scale": lambda f: _scales(f) and bool(f.holds & {"q", "k"}) and not f.holds & {"v", "weights"},
    "rescale": lambda f: _scales(f) and f.reads("weights"),
    "hide": lambda f: f.op in _HIDING and f.on_scores and f.meets_mask,
    "mask scores": lambda f: f.op in _HIDING and f.on_scores and f.reads("mask"),
    "add": lambda f: f.op in _ADD and f.on_scores and f.meets_mask,
    "fill": lambda f: f.op in _FILL and f.reads("scores"),
    "settle": _settles,
    "mask weights": lambda f: f.on_weights and f.op in _HIDING and f.meets_other,
    "softmax": lambda f: f.op in SOFTMAX and f.reads("scores") and "v" not in f.holds,
    "softmax again": lambda f: f.op in SOFTMAX and f.on_weights,
    "exp": lambda f: f.op in EXP and f.starts == "weights",
    "sum": lambda f: f.op in _SUM and f.on_weights,
    "share": lambda f: _shares_out(f) and f.on_scores,
    "divide": lambda f: _shares_out(f) and f.reads("weights"),
    "denominator": lambda f: f.op in {"add", "add_"} and f.on_weights,
    "average": _averages,
    "drop": lambda f: f.op in _DROPOUT,
    "dropping": lambda f: _rate(f) > 0,
    "mix": lambda f: "v" in f.holds and any("scores" in s and "v" not in s for s in f.sources),
    "triangle": lambda f: f.op in _TRIANGLE and f.about_masks,
    "compare": lambda f: f.op in _COMPARE and f.about_masks,
    "turn": lambda f: f.op in _TURN and f.about_masks and bool(f.holds),
    "join": lambda f: f.op in _JOIN and f.about_masks and len(f.record.inputs) > 1,
    "sign": lambda f: f.op in {"mul", "div", "neg", "sub"} and f.about_masks,
    "spread": lambda f: f.op in _SPREAD and _made_of(f, "mask"),
    "inplace": lambda f: f.in_place and bool(f.sources) and len(f.sources[0]) == 1,
    "slice": lambda f: f.op == "__getitem__" and _made_of(f, "k", "v", "kv", "memory"),
    "rows of a table": lambda f: f.op == "__getitem__" and not f.holds and len(f.record.outputs[0]) > 1,
    "pick": lambda f: f.op in _PICK and "k" in f.holds and len(f.sources) > 1,
    "repeat_kv_heads": lambda f: f.op in _REPEAT and _made_of(f, "k", "v"),
    "restride": lambda f: f.op == "as_strided" and bool(f.holds & (LOOKED_UP | INPUTS)),
    "cut": lambda f: f.op in _CUT and bool(f.holds & LOOKED_UP),
    "over samples": _merges_samples,
    "over tokens": _merges_tokens,
    "split": lambda f: f.op in _RESHAPE and f.looked_up_only and (_rank(f) > 0 or _narrower(f)),
    "merge": lambda f: f.op in _RESHAPE and _mixed(f) and _rank(f) <= 0,
    "over heads": lambda f: f.op in {"mean", "sum"} and _mixed(f) and _rank(f) < 0,
    "rotate": lambda f: f.rotates,
    "angles": lambda f: f.op in _LAY_OUT and not f.holds and _wider(f),
    "reorder": lambda f: f.op in {"transpose", "permute"} and f.looked_up_only and _swaps_pairs(f),
    "cut fused": lambda f: f.op in _CUT_FUSED and any(s in ({"qkv"}, {"kv"}) for s in f.sources),
    "project": lambda f: f.op in _PROJECT and f.looked_up_only,
    "project queries": lambda f: f.op in _PROJECT and f.holds == {"q"},
    "project out": lambda f: f.op in _PROJECT and _mixed(f),
    "from target": lambda f: f.reads("target") and f.op in _PROJECT and bool(f.holds & {"k", "v", "kv"}),
    "from memory": lambda f: f.reads("memory") and f.op in _PROJECT and f.holds == {"q"},
}


def step_lines(flow: Dataflow) -> dict[str, list[int]]:
    """Return, for each step, the lines of the calls that carry it out, in order."""
    lines: dict[str, list[int]] = {}
    for call in flow.flows:
        for step in _steps_of(call):
            lines.setdefault(step, []).append(call.line)
    instead = {"normalize": ("softmax", "sum", "exp"), "visible": ("triangle", "compare")}
    for step, others in instead.items():
        found = next((lines[other] for other in others if other in lines), [])
        if found:
            lines[step] = lines.get(step, []) + found
    return lines


def _steps_of(call: Flow) -> Iterable[str]:
    if call.starts == "fused":
        return (*_FUSED_STEPS, "dropping") if _rate(call) > 0 else _FUSED_STEPS
    return [step for step, is_step in CALLS.items() if is_step(call)]
