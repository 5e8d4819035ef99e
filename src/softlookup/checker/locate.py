"""From a rule to a line: the torch calls that a target made, told apart by what flows into them.

The first call that joins q and k is the score, the first that joins the scores and v is the mix; what lies between
is the scale, the mask and the softmax. A step that was left out points at the place where it is missing.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterable

from softlookup.checker.calls import Recorded, Sketch
from softlookup.checker.evidence import Observation

_FUSED = "scaled_dot_product_attention"
_SOFTMAX = {"softmax", "log_softmax", "_softmax", "softmin", "sigmoid"}
_EXP = {"exp", "exp_", "exp2", "logsumexp"}
_HIDING = {"masked_fill", "masked_fill_", "where", "add", "add_", "sub", "sub_", "mul", "mul_", "__setitem__", "minimum", "baddbmm"}
_FACTOR = {"mul", "mul_", "div", "div_", "true_divide", "rdiv", "multiply", "divide", "__rmul__", "__rtruediv__", "scaled_dot_product_attention"}
_TRIANGLE = {"tril", "triu", "tril_", "triu_", "triu_indices", "tril_indices", "ones_like", "causal_mask"}
_COMPARE = {"le", "ge", "lt", "gt", "eq", "ne", "__le__", "__ge__", "__lt__", "__gt__", "__eq__", "__ne__"}
_REPEAT = {"repeat", "repeat_interleave", "expand", "tile", "index_select"}
_SETTLE = {"nan_to_num", "nan_to_num_", "where", "masked_fill", "masked_fill_", "mul", "clamp", "clamp_min", "isnan"}
_FILL = {"masked_fill", "masked_fill_", "where", "__setitem__", "nan_to_num", "nan_to_num_"}
_TURN = {"bitwise_not", "logical_not", "bool", "to", "type", "eq", "ne", "rsub", "bitwise_not_", "logical_not_", "invert"}
_JOIN = {"add", "mul", "and", "bitwise_and", "bitwise_or", "logical_and", "logical_or", "or", "minimum", "sub"}
_SPREAD = {"unsqueeze", "reshape", "view", "expand", "repeat", "repeat_interleave", "tile", "__getitem__", "permute", "flatten"}
_FALLBACK = {
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


def step_lines(seen: Observation) -> dict[str, list[int]]:
    """Return, for each step, the lines of the calls that carry it out, in order."""
    flows = _flows(seen)
    lines: dict[str, list[int]] = {}

    def note(step: str, record: Recorded) -> None:
        lines.setdefault(step, []).append(record.line)

    scored = normalized = False
    for record, roles, sources in flows:
        if record.op == _FUSED:
            for step in ("score", "scale", "hide", "visible", "normalize", "settle", "mix", "drop"):
                note(step, record)
            continue
        both = {"q", "k"} <= roles
        if both and not scored:
            scored = True
            note("score", record)
            if record.op in {"baddbmm", "addmm"}:
                note("scale", record)
            continue
        if record.op in _FACTOR and (record.numbers or _has_scalar(record)) and not normalized and roles & {"q", "k"} and "v" not in roles:
            note("scale", record)
        elif record.op in _TRIANGLE and not roles & {"q", "k", "v"} and record.op != "ones_like":
            note("triangle", record)
        elif record.op in _COMPARE and not roles & {"q", "k", "v"}:
            note("compare", record)
        if record.op in _REPEAT and roles & {"k", "v"} and "q" not in roles and not scored:
            note("repeat_kv_heads", record)
        if scored and not normalized and record.op in _SOFTMAX | _EXP:
            normalized = True
            note("softmax" if record.op in _SOFTMAX else "exp", record)
        elif scored and record.op in _SOFTMAX:
            note("softmax", record)
        elif normalized and record.op in {"sum", "sum_to_size", "cumsum"} and "v" not in roles:
            note("sum", record)
        if scored and record.op in _HIDING and "v" not in roles and _joins_mask(record, sources):
            note("settle" if normalized else "hide", record)
        elif normalized and record.op in _SETTLE and "v" not in roles and record.op in {"nan_to_num", "nan_to_num_", "isnan"}:
            note("settle", record)
        _note_mask_work(record, roles, sources, scored, note)
        if record.op in {"dropout", "feature_dropout"}:
            note("drop", record)
        if scored and "v" in roles and any("q" in source and "v" not in source for source in sources):
            note("mix", record)
    lines["normalize"] = lines.get("normalize", []) + (lines.get("softmax") or lines.get("sum") or lines.get("exp") or [])
    lines["visible"] = lines.get("visible", []) + (lines.get("triangle") or lines.get("compare") or [])
    return {step: found for step, found in lines.items() if found}


def _flows(seen: Observation) -> list[tuple[Recorded, frozenset[str], list[frozenset[str]]]]:
    """Each record with the arguments that flow into it, in all and by input."""
    holds: dict[int, frozenset[str]] = {serial: frozenset({role}) for serial, role in seen.serials.items()}
    flows = []
    packed = "qkv" in seen.serials.values() or "x" in seen.serials.values()
    products = 0
    for record in seen.recorded:
        sources = [holds.get(serial, frozenset()) for serial in record.reads]
        roles = frozenset().union(*sources) if sources else frozenset()
        if packed and record.op in {"matmul", "einsum", "bmm", "baddbmm"}:
            # One tensor holds q, k and v: the first product is the score, the second the mix.
            products += 1
            roles = roles | ({"q", "k"} if products == 1 else {"q", "k", "v"})
            sources = [frozenset({"q", "k"}), frozenset({"v"})]
        for serial in record.writes:
            holds[serial] = roles - {"qkv", "x"} if packed and products else roles
        flows.append((record, roles, sources))
    return flows


def _note_mask_work(
    record: Recorded, roles: frozenset[str], sources: list[frozenset[str]], scored: bool, note: Callable[[str, Recorded], None]
) -> None:
    """What is done to masks themselves: turned round, joined, changed in place; and fills of any kind."""
    arguments = roles & {"q", "k", "v"}
    if record.op in _FILL and scored:
        note("fill", record)
        if "v" in roles:
            note("settle", record)
    if not arguments and record.op in _TURN:
        note("turn", record)
    if not arguments and record.op in _JOIN and len(record.inputs) > 1:
        note("join", record)
    if roles == {"mask"} and record.op in _SPREAD:
        note("spread", record)
    if record.op.endswith("_") and sources and len(sources[0]) == 1 and sources[0] <= {"mask", "q", "k", "v"}:
        note("inplace", record)
    if record.op == "__getitem__" and arguments and arguments < {"k", "v"} | {"k"} | {"v"}:
        note("slice", record)


def _has_scalar(record: Recorded) -> bool:
    return any(shape == () for shape in record.inputs)


def _joins_mask(record: Recorded, sources: list[frozenset[str]]) -> bool:
    """The scores meet a tensor that does not come from q, k or v: a mask or a bias."""
    if record.op.startswith("masked_fill"):
        return True
    scores = any({"q", "k"} <= source for source in sources)
    others = any(not source & {"q", "k", "v"} and len(shape) > 0 for source, shape in zip(sources, record.inputs, strict=False))
    return scores and (others or record.op in {"where", "__setitem__"})


def line_of(steps: Iterable[str], seen: Observation, sketch: Sketch, words: tuple[str, ...] = ()) -> int | None:
    """Return the line for the first of these steps that was carried out, or where it is missing.

    words: parameter names; when a rule was skipped, the ``if`` that mentions one of them is the line.
    """
    lines = step_lines(seen)
    wanted = list(steps)
    for step in wanted:
        if step.startswith("if:"):
            found = _branch(sketch, words)
            if found:
                return found
            continue
        if step in lines:
            return lines[step][0]
        if step in {"visible", "repeat_kv_heads"} and "slice" in lines:
            return _assignment_behind(sketch, lines["slice"][0]) or lines["slice"][0]
    for step in wanted:
        for other in _FALLBACK.get(step, ()):
            if other in lines:
                return lines[other][0]
    return seen.recorded[-1].line if seen.recorded else sketch.line


def _assignment_behind(sketch: Sketch, line: int) -> int | None:
    """Keys picked by a plain number, ``k[:visible]``: the line that worked the number out."""
    try:
        tree = ast.parse(textwrap.dedent(sketch.source))
    except SyntaxError:
        return None
    here = line - sketch.line + 1
    picked = {
        name.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and node.lineno <= here <= (node.end_lineno or node.lineno)
        for name in ast.walk(node.slice)
        if isinstance(name, ast.Name)
    }
    assigned = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and node.lineno < here
        and any(isinstance(t, ast.Name) and t.id in picked for t in node.targets)
    ]
    return sketch.line + max(assigned) - 1 if assigned else None


def _branch(sketch: Sketch, words: tuple[str, ...]) -> int | None:
    """The first branch on one of these names in the target's source."""
    try:
        tree = ast.parse(textwrap.dedent(sketch.source))
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.If | ast.IfExp) and any(isinstance(n, ast.Name) and n.id in words for n in ast.walk(node.test)):
            return sketch.line + node.test.lineno - 1
    return None
