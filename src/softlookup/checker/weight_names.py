"""What the names of a module's weights say: which is a projection of what, and which sizes are heads."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from softlookup.checker.abilities import Dropout
from softlookup.checker.calls import Sketch, Weight

#: What may stand around the telling part of a name: w_q, to_q, q_proj, query_layer, fc_q, q_linear ...
_BEFORE = (
    r"(w|to|proj|project|projection|linear|lin|fc|dense|conv|in|c|self|attn|attention|get|make|enc|mha|tok)?"
)
_AFTER = (
    r"(proj|projs|projection|projections|linear|lin|layer|net|fc|weights?|w|transform|map|dense|conv(1d|2d)?"
    r"|matrix|embed|embedding|in|head|heads|attn|mat|kernel|states|to)*"
)

#: role -> the name in small letters without anything else. The first match wins.
_ROLES = {
    "qkv": rf"{_BEFORE}(qkv|querykeyvalue|queriesq?keysvalues){_AFTER}",
    "packed": rf"cattn|inproj{_AFTER}|wpack|packed{_AFTER}|attnproj|allproj|projin",
    "kv": rf"{_BEFORE}(kv|keyvalue|keysvalues){_AFTER}",
    "q": rf"{_BEFORE}(q|qs|query|queries|theta){_AFTER}",
    "k": rf"{_BEFORE}(k|ks|key|keys|phi){_AFTER}",
    "v": rf"{_BEFORE}(v|vs|val|vals|value|values){_AFTER}",
    "out": rf"{_BEFORE}(o|outs?|outputs?|unify|unifyheads|combine|merge|final|concat|post){_AFTER}"
    rf"|(cproj|projs?|projection|fc|dense|project|linear|mix|wz|headproj|resid){_AFTER}",
}
_PATTERNS = {role: re.compile(pattern) for role, pattern in _ROLES.items()}

#: Names of any projection: what it projects may be said by the part that it lies in.
_ANY = frozenset(["linear", "lin", "proj", "projection", "project", "fc", "dense"])

_HEADS = re.compile(r"(n|num|nb)_?(q_|query_|attention_|attn_)?heads?(_q)?|heads?(_num|_count)?|h|nheads?")
_KV_HEADS = re.compile(
    r"(n|num|nb)_?(local_)?(kv|key_value|k_v)_?heads?|kv_heads|(n|num)_query_groups|multi_query_group_num"
)
_WIDTH = re.compile(r"(d|dim)_?(head|k|qk|key)|(attention_)?head_(dim|size)|dk|depth|hidden_size_per_.*head")
_DROPOUT = re.compile(
    r"((attn|attention|att|resid|proj|hidden)_)?(probs_)?(p_)?p?drop(out)?(_p|_prob|_rate)?", re.I
)
_LENGTH = re.compile(r"max_?(seq|len|t$|pos)|block_size|context|ctx", re.I)
_SHORTEST_TABLE = 16  # a smaller number counts the tokens of a block or window
#: Numbers that change what is seen and are no projection: 0 while the module is asked.
_SILENT = re.compile(r"bias|lora|adapter|sink|alibi_param|relative|rel_pos|pos_emb|position_emb", re.I)
_GATE = re.compile(r"(res_?|layer_?|attn_?|out_?)?(gamma|gate|scale|alpha)(_?\d|_attn|_msa)?", re.I)
_QK_NORM = re.compile(r"(^|[._])((q|k|qk|query|key)_?(layer)?_?(norm|ln)|(norm|ln)_?(q|k|qk|query|key))")


@dataclass(frozen=True)
class Named:
    """A weight that may be a projection."""

    weight: Weight
    role: str | None  # of _ROLES; None where the name says nothing
    owner: str  # class of the part that holds it, e.g. "Linear"; "" for a bare parameter
    word: str = ""  # the part of the name that tells the role
    place: int | None = None  # number in a list of parts


def named_weights(sketch: Sketch) -> list[Named]:
    """Return the weights of two axes or more that are no bias, no normalisation and no table of positions."""
    found = []
    for weight in sketch.weights:
        path = weight.name.rpartition(".")[0]
        owner = sketch.parts.get(path, "")
        owner = "" if owner in {"ParameterList", "ParameterDict"} else owner  # these apply nothing
        if not weight.trained or len(_lean(weight.shape)) < 2 or "Norm" in owner or owner == "Embedding":
            continue
        if _SILENT.search(weight.name):
            continue
        role, word = _role_of(weight.name, bare=not owner)
        places = [int(step) for step in weight.name.split(".") if step.isdigit()]
        found.append(Named(weight, role, owner, word, places[0] if places else None))
    return found


def _lean(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape without the axes of a kernel of size 1."""
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _role_of(name: str, *, bare: bool) -> tuple[str | None, str]:
    steps = [step for step in name.split(".") if not step.isdigit()]
    if not bare:
        steps = steps[:-1]  # "weight"
    found: tuple[str | None, str] = (None, "")
    for step in reversed(steps):
        plain = re.sub(r"[^a-z]", "", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", step).lower())
        role = next((role for role, pattern in _PATTERNS.items() if pattern.fullmatch(plain)), None)
        if role and (found[0] is None or role != "out"):
            found = role, step
        if found[0] and plain not in _ANY:  # query.linear projects queries
            break
    return found


def silent_weights(sketch: Sketch) -> tuple[str, ...]:
    """Return the biases, adapters and tables of positions."""
    return tuple(
        weight.name
        for weight in sketch.weights
        if weight.trained
        and "Norm" not in sketch.parts.get(weight.name.rpartition(".")[0], "")
        and _SILENT.search(weight.name)
    )


def gates_of(sketch: Sketch) -> tuple[str, ...]:
    """Return the learned factors on the output of a layer, which may start at 0: open while it is asked."""
    return tuple(
        weight.name
        for weight in sketch.weights
        if weight.trained
        and _GATE.fullmatch(weight.name.rpartition(".")[2])
        and len([size for size in weight.shape if size > 1]) < 2
        and "Norm" not in sketch.parts.get(weight.name.rpartition(".")[0], "")
    )


def norm_factors_of(sketch: Sketch) -> tuple[str, ...]:
    """Return the learned factors of normalisations, as built: trained ones differ from feature to feature."""
    return tuple(
        weight.name
        for weight in sketch.weights
        if weight.trained
        and len(weight.shape) == 1
        and "Norm" in sketch.parts.get(weight.name.rpartition(".")[0], "")
        and not weight.name.endswith("bias")
    )


def norms_around(sketch: Sketch, num_heads: int, d_head: int) -> tuple[str, ...]:
    """Return the parts that normalise inputs or outputs: those of queries and keys belong to the lookup."""
    found = [
        path
        for path, kind in sketch.parts.items()
        if re.search(r"Norm(\dd)?$|Normalization$", kind)
        and "parametrizations" not in path
        and not _QK_NORM.search(path)
        and (num_heads == 1 or _width_of(sketch, path) != d_head)
    ]
    return tuple(path for path in found if not any(path.startswith(f"{other}.") for other in found))


def norms_inside(sketch: Sketch, around: tuple[str, ...]) -> tuple[str, ...]:
    """Return the other parts that normalise, by their class or by what they are called: q_norm, k_norm."""
    found = [
        path
        for path, kind in sketch.parts.items()
        if ("norm" in kind.lower() or _QK_NORM.search(path)) and "parametrizations" not in path
    ]
    outer = [path for path in found if not any(path.startswith(f"{other}.") for other in found)]
    return tuple(path for path in outer if path not in around)


def _width_of(sketch: Sketch, path: str) -> int | None:
    shapes = [weight.shape for weight in sketch.weights if weight.name == f"{path}.weight"]
    return shapes[0][-1] if shapes and shapes[0] else None


def heads_of(sketch: Sketch) -> int | None:
    """Return the number of query heads that the module holds in a setting."""
    return _setting(sketch, _HEADS)


def kv_heads_of(sketch: Sketch) -> int | None:
    """Return the number of key/value heads that the module holds in a setting."""
    return _setting(sketch, _KV_HEADS)


def d_head_of(sketch: Sketch) -> int | None:
    """Return the width of a head that the module holds in a setting."""
    return _setting(sketch, _WIDTH)


def dropout_of(sketch: Sketch) -> Dropout | None:
    """Return the dropout that a module was built with; None when all its rates are 0."""
    parts = [path for path, kind in sketch.parts.items() if "Dropout" in kind or kind == "DropPath"]
    own = {f"{path}.p" for path in parts}  # set to 0, and not bypassed: other code may read them
    rates = [
        path
        for path, value in sketch.settings.items()
        if path in own or _DROPOUT.fullmatch(path.rpartition(".")[2])
        if isinstance(value, float) and value > 0
        if not path.startswith("config.") or path in sketch.source  # a rate for other parts of the model
    ]
    parts = [path for path in parts if f"{path}.p" not in sketch.settings]
    return Dropout(tuple(parts), tuple(rates)) if parts or rates else None


def longest_of(sketch: Sketch) -> int | None:
    """Return how many tokens a module's tables are made for: a setting says so, or a square buffer."""
    named = [
        value
        for path, value in sketch.settings.items()
        if _LENGTH.search(path.rpartition(".")[2]) and type(value) is int and value >= _SHORTEST_TABLE
    ]
    fixed = [weight.shape for weight in sketch.weights if not weight.trained and len(weight.shape) > 1]
    square = [shape[-1] for shape in fixed if shape[-1] == shape[-2] >= _SHORTEST_TABLE]
    return min(named + square, default=None)


def _setting(sketch: Sketch, pattern: re.Pattern[str]) -> int | None:
    """Return the first whole number of this name, of the module itself before its parts."""
    for path in sorted(sketch.settings, key=lambda path: path.count(".")):
        value = sketch.settings[path]
        name = path.rpartition(".")[2].strip("_").lower()
        if pattern.fullmatch(name) and type(value) is int and value > 0:
            return value
    return None


def bias_of(parameter: str, names: Collection[str]) -> str | None:
    """Return the bias beside a weight: "q_proj.bias", "in_proj_bias", "b_q"; None when there is none."""
    stem, dot, last = parameter.rpartition(".")
    for old, new in (("weight", "bias"), ("kernel", "bias"), ("W", "b"), ("w", "b")):
        found = f"{stem}{dot}{last.replace(old, new)}"
        if old in last and found != parameter and found in names:
            return found
    return None
