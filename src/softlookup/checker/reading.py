"""What a target says about itself: names, annotations and docstrings, read and never run.

A role is what a parameter is for; a declaration is a meaning that the author wrote down. Declarations are held
against the target later, everything else is measured.
"""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass, field
from typing import Any

from softlookup.checker.calls import Parameter, Sketch

#: role -> what a parameter of that role is called. The first match wins, so the order matters.
_ROLES = {
    "qkv": r"(packed_?)?(qkv|q_k_v)(_packed|_states)?|packed",
    "need_weights": r"(return|need|output|with|get)_(attn_|attention_)?(weights?|attn|attentions?|scores|probs|maps?|p)",
    "kv_heads": r"(n|num|nb|number_of)_?(kv|key_value)_?heads?|h_?kv|kv_heads",
    "heads": r"(n|num|nb|number_of)_?(q_)?_?heads?|heads|nhead|h|num_q_heads",
    "training": r"(is_)?train(ing)?|deterministic",
    "dropout": r"(attn_|attention_)?(dropout|drop|p_?drop)(_p|_rate|_prob|_ratio)?|p|drop_prob",
    "gqa": r"enable_gqa|gqa",
    "causal": r"(is_|use_|apply_)?(causal)|(is_|use_|apply_)causal_?(mask|masking)|autoregressive|is_decoder",
    "temperature": r"temperature|temp|tau",
    "scale": r"(softmax_|sm_|attn_|attention_|qk_|score_|logit_)?(scale|scaling)(_factor)?",
    "window": r"(sliding_|local_|attn_|attention_|left_)?(window)(_size|_len|_length|_left)?|w",
    "documents": r"(q_|kv_)?(doc|document|seg|segment|seq|sequence|example|sample|pack)_?(ids?|idx|index|indices)|documents|segments",
    "lengths": r"(key_|k_|kv_|seq_|src_|source_|memory_|mem_|valid_|actual_|x_)?_?(lens?|lengths?|seq_?lens?)|seqlens?(_k)?",
    "mask": r".*mask.*|keep|visible|allowed|valid|is_pad|is_real|blocked|not_pad|pad",
    "bias": r"(attn_|attention_|position_|pos_|rel_pos_|relative_|rel_|additive_|score_|alibi_)?_?bias|alibi",
    "sink": r"sinks?|sink_logits?|attn_sinks?",
    "slopes": r"(alibi_)?slopes?",
    "block": r"(q_|k_|kv_|key_|query_)?(block|chunk|tile)(_size|_len|_q|_k|_m|_n)?|b[rc]",
    "q": r"(x|h)?_?(q|query|queries|qs)(_states?|_layer|_heads?|_proj|_vecs?|s|_in|_h|_tensor|h)?|targets?|query_input",
    "k": r"(x|h)?_?(k|key|keys|ks)(_states?|_layer|_heads?|_proj|_vecs?|s|_in|_h|_tensor|h|_cache|t|_t|_transposed)?",
    "v": r"(x|h)?_?(v|value|values|vs)(_states?|_layer|_heads?|_proj|_vecs?|s|_in|_h|_tensor|h|_cache)?",
    "x": r"x|inputs?|hidden(_states?)?|embeddings?|tokens|embeds",
}
_ROLE_PATTERNS = {role: re.compile(pattern, re.I) for role, pattern in _ROLES.items()}

_AXES = {
    "B": "b bs bsz batch batch_size nb batchsize bn",
    "H": "h heads head nh n_heads num_heads n_head nheads hq num_q_heads n_h",
    "H_kv": "hkv h_kv kvh kv_heads num_kv_heads n_kv_heads n_kv hk",
    "G": "g group groups num_groups q_per_kv heads_per_kv",
    "T": "t l s seq seq_len seqlen len length tokens t_q t_k tq tk lq lk l_q l_k q_len k_len kv_len tgt src "
    "tgt_len src_len sq sk s_q s_k m i j time n_q n_k nq nk lkv tkv t_kv positions source target q k seq_q seq_k "
    "query_len key_len t_source t_target queries keys nodes",
    "d": "d dim d_k d_v dk dv d_head head_dim hd e ev hs depth c width channels dh d_h dhead headdim dim_head "
    "features d_qk dqk head_size e_head",
    "1": "1",
    "3": "3",
}
_AXIS_OF = {word: axis for axis, words in _AXES.items() for word in words.split()}


@dataclass(frozen=True)
class Reading:
    """Everything that a sketch states."""

    roles: dict[str, str]  # parameter name -> role
    layouts: tuple[str, ...] = ()  # axes of q; several when the author promises several
    key_layout: str | None = None
    packed_layout: str | None = None
    mask_kind: str | None = None
    mask_axes: tuple[str, ...] | None = None
    mask_values: tuple[str, ...] = ()  # of "bool", "int", "float", when the author says so
    integer_mask: bool = False
    facts: dict[str, Any] = field(default_factory=dict)  # declared fields of Contract
    window_counts: str | None = None  # "keys" (itself included) or "lookback"
    words: str = ""  # name and documentation, for the variants to recognise themselves


def role_of(name: str) -> str | None:
    """Return what a parameter of this name is for, or None."""
    plain = name.strip("_")
    for role, pattern in _ROLE_PATTERNS.items():
        if pattern.fullmatch(plain):
            return role
    return None


def read(sketch: Sketch) -> Reading:
    """Read a sketch."""
    roles = _roles(sketch.parameters)
    doc = _documentation(sketch)
    notes = _notes_by_parameter(doc, sketch.parameters)
    if "mask" not in roles.values():
        unknown = [p.name for p in sketch.parameters if p.name not in roles and _polarity(notes.get(p.name, ""))]
        roles |= {name: "mask" for name in unknown[:1]}
    if "mask" not in roles.values():
        roles = {name: "mask" if role == "bias" and _hides(notes.get(name, "")) else role for name, role in roles.items()}
    of = lambda role: next((name for name, r in roles.items() if r == role), "")  # noqa: E731
    q, k, qkv, mask = of("q"), of("k"), of("qkv"), of("mask")
    annotations = {p.name: p.annotation for p in sketch.parameters}
    first_is_batch = bool(re.search(r"[\[(]\s*n\s*,(\s*[\w*]+\s*,){1,3}", doc, re.I))

    def shape(name: str) -> tuple[str, ...] | None:
        found = _shapes(notes.get(name, ""), first_is_batch) or _shapes(annotations.get(name, ""), first_is_batch)
        return found[0] if found else None

    stated = [_layout(found) for found in _shapes(notes.get(q, ""), first_is_batch) or _shapes(annotations.get(q, ""))]
    layouts = [found for found in stated if found] or [_layout_from_name(sketch.name), _layout(_free_shape(notes.get("", "")))]
    mask_text = notes.get(mask, "") if mask else ""
    mask_doc = mask_text or (notes.get("", "") if mask else "")
    kind = _polarity(mask_doc) or (_polarity_of_name(mask) if mask else None)
    return Reading(
        roles=roles,
        layouts=_unlike(layouts),
        key_layout=_layout(shape(k)),
        packed_layout=_packed(shape(qkv)),
        mask_kind=kind,
        mask_axes=_mask_axes(shape(mask)) if mask else None,
        mask_values=_mask_values(mask_text + " " + annotations.get(mask, "")) if mask else (),
        integer_mask=bool(re.search(r"\bint|uint8|byte|long\b|\b[01]\s*(/|or|and|=|means|for|where|marks)\s*", mask_doc + annotations.get(mask, ""), re.I)),
        facts=_facts(sketch, doc, notes, roles),
        window_counts=_window_counts(notes.get(of("window"), "") + " " + notes.get("", "")),
        words=f"{sketch.name} {' '.join(roles)}\n{doc}".lower(),
    )


def _hides(text: str) -> bool:
    """A bias that hides keys is a mask."""
    return bool(re.search(r"-inf|hidden|hides|masked|may not", text, re.I))


def _roles(parameters: tuple[Parameter, ...]) -> dict[str, str]:
    roles: dict[str, str] = {}
    for parameter in parameters:
        role = role_of(parameter.name)
        if role == "causal" and parameter.default in {"", "None"} and "mask" in parameter.name:
            role = "mask"  # `causal_mask=None` is a tensor
        if role in {"w", "h", "x", "p"} or role is None:
            continue
        if role == "mask" and parameter.default in {"True", "False"}:
            role = "causal" if "causal" in parameter.name or parameter.name in {"mask", "masked"} else None
        if role and (role not in roles.values() or role in {"mask", "block", "need_weights"}):
            roles[parameter.name] = role
    return roles


def _documentation(sketch: Sketch) -> str:
    """The target's docstrings, outermost first: of the class and of its methods, or of the function."""
    texts = [sketch.doc]
    try:
        tree = ast.parse(textwrap.dedent(sketch.source))
    except SyntaxError:
        return sketch.doc
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            if text and text.split() not in [known.split() for known in texts]:
                texts.append(text)
    return "\n\n".join(texts)


_HEAD = re.compile(
    r"^\s*[-*:]*\s*(?:param\s+)?`*([A-Za-z_]\w*`*(?:\s*(?:,|/|and)\s*`*[A-Za-z_]\w*`*)*)\s*(?:\([^)]*\))?"
    r"\s*(?::|=|--|—| - |\bare\b|\bis\b|\bhas\b)"
)


def _notes_by_parameter(doc: str, parameters: tuple[Parameter, ...]) -> dict[str, str]:
    """Split documentation into the lines about each parameter; "" holds the rest."""
    names = {p.name for p in parameters}
    notes: dict[str, list[str]] = {"": []}
    current: list[str] = [""]
    indent = 0
    for line in doc.splitlines():
        depth = len(line) - len(line.lstrip())
        if not line.strip() or (current != [""] and depth <= indent):
            current = [""]
        # Several parameters on one line: "k: [...]   v: [...]; mask: bool, ..."
        for place, piece in enumerate(re.split(r";\s+|(?<=\S)\s{2,}|(?<=[.)\]])\s+(?=[\w, ]+:\s)", line)):
            head = _HEAD.match(piece)
            mentioned = [word for word in re.findall(r"\w+", head[1]) if word in names] if head else []
            if mentioned:
                current = mentioned
                indent = depth if place == 0 else indent
            for name in current:
                notes.setdefault(name, []).append(piece.strip())
    return {name: " ".join(lines) for name, lines in notes.items()}


def _shapes(text: str, first_is_batch: bool = False) -> list[tuple[str, ...]]:
    """The shapes written in a text: "[B, H, T_q, d]" or the axes of a jaxtyping annotation.

    first_is_batch: "n" is the batch in this text, and not a number of tokens.
    """
    found = []
    for inner in re.findall(r"[\[(]([^\[\]()]*(?:\([^()]*\))?[^\[\]()]*)[\])]|[\"']([^\"']+)[\"']", text):
        plain = re.sub(r"\s*\*\s*", "*", (inner[0] or inner[1]).strip())
        words = [w for w in re.split(r"[\s,×]+|\bx\b", plain) if w]
        axes = [_axis(word, place, len(words), first_is_batch) for place, word in enumerate(words)]
        if len(axes) > 1 and all(axes):
            found.append(tuple(str(axis) for axis in axes))
    return found


def _axis(word: str, place: int, count: int, first_is_batch: bool) -> str | None:
    if word in {"...", "*"} and place == 0:
        return "..."
    plain = word.strip("#_?").lower()
    if "*" in plain:  # "batch * heads": as good as a batch
        first = _AXIS_OF.get(plain.split("*")[0])
        return "B" if first == "B" and place == 0 else None
    if plain == "n":
        return "B" if place == 0 and (first_is_batch or count > 2) else "T"
    return _AXIS_OF.get(plain)


def _unlike(layouts: list[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layout for layout in layouts if layout))


def _mask_values(text: str) -> tuple[str, ...]:
    """What the elements of a mask may be, when the text says so."""
    named = {"bool": r"\bbool", "int": r"\bu?int(8|32|64)?\b|\bbyte|\blong\b|bytetensor|longtensor", "float": r"\bfloat"}
    return tuple(kind for kind, pattern in named.items() if re.search(pattern, text, re.I))


def _layout(shape: tuple[str, ...] | None) -> str | None:
    if shape is None:
        return None
    axes = list(shape) if "G" in shape else ["H" if axis == "H_kv" else axis for axis in shape]
    if axes[0] == "...":
        return None
    right = axes.count("T") == 1 and axes.count("d") == 1 and len(set(axes)) == len(axes) and not {"1", "3"} & set(axes)
    return " ".join(axes) if right else None


def _layout_from_name(name: str) -> str | None:
    match = re.search(r"(?:^|_)(b?)(thd|htd|shd|hsd)(?:_|$)", name.lower())
    return " ".join([*match[1].upper(), *match[2].upper().replace("S", "T").replace("D", "d")]) if match else None


def _packed(shape: tuple[str, ...] | None) -> str | None:
    return " ".join(shape) if shape and "3" in shape else None


def _free_shape(text: str) -> tuple[str, ...] | None:
    """A shape of q outside the list of parameters, e.g. "all tensors are [B, T, H, d]"."""
    for shape in _shapes(text):
        if _layout(shape):
            return shape
    match = re.search(r"\bb\s?[ht]\s?[ht]\s?[de]\b", text, re.I)
    return _shapes("(" + " ".join(match[0].replace(" ", "")) + ")")[0] if match else None


def _mask_axes(shape: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Axes of a mask: the last T is the key axis, the one before it the query axis."""
    if shape is None or shape[0] == "..." or {"d", "3"} & set(shape) or "T" not in shape:
        return None
    axes = ["H" if axis == "H_kv" else axis for axis in shape]
    last = len(axes) - 1 - axes[::-1].index("T")
    if last == len(axes) - 2 and axes[-1] == "1":
        return None  # [B, 1, T, 1]: the query axis alone, which is a bug and not a way to spell a mask
    return tuple("T_k" if place == last else "T_q" if axis == "T" else axis for place, axis in enumerate(axes))


_YES = r"(?:\btrue\b|\b1(?:\.0?|s)?(?![\w/])|\bones?\b|non-?zero)"
_NO = r"(?:\bfalse\b|\b0(?:\.0?|s)?(?![\w/])|\bzeros?\b)"
_LOOK = r"(?:attend|allow|keep|kept|visible|valid\b|real\b|look|seen?\b|participat|unmasked|include|may be used|actual|part of)"
_HIDE = r"(?:\bmask|block|hid|ignor|padd?ing|\bpad\b|padded|exclud|drop|disallow|forbid|forbidden|invisible|invalid|removed|masked)"
_GAP = rf"(?:(?!{_YES}|{_NO})[^.\n;]){{0,60}}?"


def _polarity(text: str) -> str | None:
    """What True means, when the text says so."""
    added = re.search(r"\b(added to|additive|adds? to|-inf\b.*hid|hid\w*.*-inf\b|float bias)", text, re.I)
    if added and not re.search(r"\btrue\b|\bbool", text, re.I):
        return "additive"
    for marker, same in ((_YES, True), (_NO, False)):
        match = re.search(rf"{marker}({_GAP})({_LOOK}|{_HIDE})", text, re.I)
        if not match:
            # "keep where True", "the keys to hide are True"
            match = re.search(rf"({_LOOK}|{_HIDE})\w*(\s+(?:where|when|if|are|is|keys|positions|tokens)){{1,3}}\s+{marker}", text, re.I)
            if not match:
                continue
            looks = bool(re.match(_LOOK, match[1], re.I))
            return "allowed" if looks == same else "blocked"
        negated = bool(re.search(r"\b(not|never|cannot|can't|no|non|must not|n't)\b", match[1], re.I))
        looks = bool(re.match(_LOOK, match[2], re.I)) != negated
        return "allowed" if looks == same else "blocked"
    return None


def _polarity_of_name(name: str) -> str | None:
    plain = name.lower()
    if re.search(r"allow|keep|visible|valid|attend_|is_real|not_pad|non_pad|can_see|may_", plain):
        return "allowed"
    if re.search(r"block|hidden|hide|ignore|drop|key_padding_mask|is_pad|forbid|exclude|masked_out", plain):
        return "blocked"
    if re.search(r"additive|bias", plain):
        return "additive"
    return None


def _facts(sketch: Sketch, doc: str, notes: dict[str, str], roles: dict[str, str]) -> dict[str, Any]:
    """Declared fields of the contract, from the name and the documentation."""
    facts: dict[str, Any] = {}
    name, text = sketch.name.lower(), " ".join(doc.lower().split())
    rest = notes.get("", "").lower()
    has_argument = "causal" in roles.values()
    not_causal = re.search(r"non[- ]?causal|not causal|bidirectional|full attention|every query sees every key|no causal", rest)
    if has_argument:
        facts["causal"] = "argument"
    elif re.search(r"noncausal|bidirectional|full_attention", name) or not_causal:
        facts["causal"] = "none"
    elif re.search(r"causal|autoregress|decoder_self|masked_self", name) or re.search(
        r"\bcausal|autoregressive|look[- ]?ahead|(never|not|cannot) (see|look|attend)\w* (at |to )?(the )?(future|later)", rest
    ):
        facts["causal"] = "built-in"
    if re.search(r"bottom.?right|last query\b.{0,60}\blast key|newest query sees every|decod\w+ with a (kv |key/value )?cache", text):
        facts["corner"] = "bottom-right"
    elif re.search(r"top.?left|first query\b.{0,40}\bfirst key|counted from the first key", text):
        facts["corner"] = "top-left"
    if re.search(r"strictly (causal|earlier|before|past)|self[- ]excluded|exclud\w+ (it)?self|only (strictly )?earlier|not itself|excluding the (query|token) itself", text):
        facts["self_visible"] = False
    if re.search(r"(row|quer)\w*\b[^.]{0,60}\b(no|nothing|nowhere|without|zero|empty|fully|entirely)\b[^.]{0,70}\b(zeros?|0)\b", text):
        facts["empty_rows"] = "zero"
    if re.search(r"uninitiali[sz]ed|garbage|(may|can) (hold|contain|be) (nan|anything|inf)", text):
        facts["hidden_nan"] = "isolated"
    if re.search(r"(unscaled|no scal(e|ing)|without scal(e|ing)|not scaled)\b", text):
        facts["scale"] = 1.0
    if re.search(r"\b(averag\w+|mean) over (the )?heads|head[- ]averaged", text):
        facts["weights"] = "averaged"
    elif re.search(r"per[- ]head weights|weights[^.]{0,30}\bper head|weights[^.\n]{0,12}[\[(]b(atch)?, ?(h\b|heads|num_heads)", text):
        facts["weights"] = "per head"
    return facts


def _window_counts(text: str) -> str | None:
    if re.search(r"itself included|including itself|itself and|included|keys (each|a|that a) query sees|counts? (the )?(query )?itself|inclusive", text, re.I):
        return "keys"
    if re.search(r"look(s|ing)? back|before it|to the left|earlier keys|previous keys|preceding", text, re.I):
        return "lookback"
    return None


#: Width that constructors of weightless classes are told; the probes use it too.
CONSTRUCTOR_WIDTH = 8


def constructor_value(name: str) -> Any:
    """Return what a weightless class's constructor gets for a required parameter of this name, or None."""
    plain = name.strip("_").lower()
    if re.fullmatch(r"temperature|temp|tau", plain):
        return CONSTRUCTOR_WIDTH**0.5
    if re.fullmatch(r"(softmax_|sm_|attn_|qk_)?(scale|scaling)(_factor)?", plain):
        return CONSTRUCTOR_WIDTH**-0.5
    if re.search(r"drop", plain):
        return 0.0
    if re.fullmatch(r"(d|dim|head|d_k|dk|d_head|head_dim|dim_head|head_size|d_qk|key_dim|depth|hidden)(_?(dim|size))?", plain):
        return CONSTRUCTOR_WIDTH
    if re.search(r"heads?$", plain):
        return 3
    if re.search(r"max_len|max_seq|block_size|context|ctx", plain):
        return 512
    if re.search(r"window", plain):
        return 3
    if re.search(r"block|chunk|tile", plain):
        return 4
    return None
