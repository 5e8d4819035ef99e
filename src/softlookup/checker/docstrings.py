"""Read docstrings and annotations: what each parameter is, shapes, and what True means in a mask."""

from __future__ import annotations

import ast
import re
import textwrap

from softlookup.checker.calls import Parameter, Sketch

_AXES = {
    "B": "b bs bsz batch batch_size nb batchsize bn",
    "H": "h heads head nh n_heads num_heads n_head nheads hq num_q_heads n_h",
    "H_kv": "hkv h_kv kvh kv_heads num_kv_heads n_kv_heads n_kv hk",
    "G": "g group groups num_groups q_per_kv heads_per_kv",
    "T": "t l s seq seq_len seqlen len length tokens t_q t_k tq tk lq lk l_q l_k q_len k_len kv_len tgt src "
    "tgt_len src_len sq sk s_q s_k m i j time n_q n_k nq nk lkv tkv t_kv positions source target q k "
    "seq_q seq_k query_len key_len t_source t_target queries keys nodes frames num_queries num_tokens",
    "d": "d dim d_k d_v dk dv d_head head_dim hd e ev hs depth c width channels dh d_h dhead headdim "
    "dim_head features d_qk dqk head_size e_head",
    "1": "1",
    "3": "3",
}


_AXIS_OF = {word: axis for axis, words in _AXES.items() for word in words.split()}


def documentation(sketch: Sketch) -> str:
    """The target's docstrings, outermost first: of the class and of its methods, or of the function."""
    texts = [_without_examples(sketch.doc)]
    try:
        tree = ast.parse(textwrap.dedent(sketch.source))
    except SyntaxError:
        return sketch.doc
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            text = ast.get_docstring(node) or ""
            text = _without_examples(text)
            if text and text.split() not in [known.split() for known in texts]:
                texts.append(text)
    return "\n\n".join(texts)


def _without_examples(text: str) -> str:
    """Leave out the lines of a doctest: what an example calls its tensors promises nothing."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith((">>>", "... ")))


_HEAD = re.compile(
    r"^\s*[-*:]*\s*(?:param\s+)?`*([A-Za-z_]\w*`*(?:\s*(?:,|/|and)\s*`*[A-Za-z_]\w*`*)*)\s*(?:\([^)]*\))?"
    r"\s*(?::|=|--|—| - |\bare\b|\bis\b|\bhas\b)"
)


def notes_by_parameter(doc: str, parameters: tuple[Parameter, ...]) -> dict[str, str]:
    """Split documentation into the lines about each parameter; "" holds the rest."""
    names = {p.name for p in parameters}
    notes: dict[str, list[str]] = {"": []}
    current: list[str] = [""]
    indent = 0
    for line in doc.splitlines():
        depth = len(line) - len(line.lstrip())
        if not line.strip() or (current != [""] and depth <= indent):
            current = [""]
        # Several parameters on one line: "k: [...]   v: [...], bias: [...]; mask: bool, ..."
        for place, piece in enumerate(re.split(r";\s+|(?<=\S)\s{2,}|(?<=[.)\]]),?\s+(?=[\w, ]+:\s)", line)):
            head = _HEAD.match(piece)
            mentioned = [word for word in re.findall(r"\w+", head[1]) if word in names] if head else []
            if mentioned:
                current = mentioned
                indent = depth if place == 0 else -1  # begun inside a line: it goes on below
            for name in current:
                notes.setdefault(name, []).append(piece.strip())
    return {name: " ".join(lines) for name, lines in notes.items()}


def shapes_in(text: str, first_is_batch: bool = False) -> list[tuple[str, ...]]:
    """The shapes written in a text: "[B, H, T_q, d]" or the axes of a jaxtyping annotation.

    first_is_batch: "n" is the batch in this text, and not a number of tokens.
    """
    found = []
    for inner in re.findall(r"[\[(]([^\[\]()]*(?:\([^()]*\))?[^\[\]()]*)[\])]|[\"']([^\"']+)[\"']", text):
        plain = re.sub(r"\s*\*\s*", "*", (inner[0] or inner[1]).strip())
        words = [w for w in re.split(r"\s*,\s*" if "," in plain else r"[\s×]+|\bx\b", plain) if w]
        words = [w if w.strip("#_?").lower() in _AXIS_OF else w.split()[0] for w in words]
        axes = [_axis(word, place, len(words), first_is_batch) for place, word in enumerate(words)]
        if axes.count("T") == 2 and words[-1].lower() in {"k", "v"}:
            axes[-1] = "d"  # [B, T, HQ, K]: the last letter is a width
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


def mask_values_of(text: str) -> tuple[str, ...]:
    """What the elements of a mask may be, when the text says so."""
    named = {
        "bool": r"\bbool|\bbinary\b|\btrue\b|bytetensor",  # as bool was called before there was one
        "int": r"\bu?int(8|32|64)?\b|\bbyte|\blong\b|bytetensor|longtensor",
        "float": r"\bfloat",
    }
    return tuple(kind for kind, pattern in named.items() if re.search(pattern, text, re.I))


def layout_of(shape: tuple[str, ...] | None) -> str | None:
    """Return a shape as a layout, ("B", "T", "H", "d") as "B T H d"; None when it is no layout of q."""
    if shape is None:
        return None
    axes = list(shape) if "G" in shape else ["H" if axis == "H_kv" else axis for axis in shape]
    if axes[0] == "...":
        return None
    right = (
        axes.count("T") == 1
        and axes.count("d") == 1
        and len(set(axes)) == len(axes)
        and not {"1", "3"} & set(axes)
    )
    return " ".join(axes) if right else None


def layout_from_name(name: str) -> str | None:
    """Return the layout that a function's name states, "attention_bshd" means "B T H d"; None when none."""
    match = re.search(r"(?:^|_)(b?)(thd|htd|shd|hsd)(?:_|$)", name.lower())
    return (
        " ".join([*match[1].upper(), *match[2].upper().replace("S", "T").replace("D", "d")])
        if match
        else None
    )


def packed_layout_of(shape: tuple[str, ...] | None) -> str | None:
    """Return a shape with an axis "3" as the layout of q, k and v in one tensor; None when it has none."""
    return " ".join(shape) if shape and "3" in shape else None


def free_shape(text: str) -> tuple[str, ...] | None:
    """A shape of q outside the list of parameters, e.g. "all tensors are [B, T, H, d]"."""
    for shape in shapes_in(text):
        if layout_of(shape):
            return shape
    match = re.search(r"\bb\s?[ht]\s?[ht]\s?[de]\b", text, re.I)
    return shapes_in("(" + " ".join(match[0].replace(" ", "")) + ")")[0] if match else None


def mask_axes_of(shape: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Axes of a mask: the last T is the key axis, the one before it the query axis."""
    if shape is None or shape[0] == "..." or {"d", "3"} & set(shape) or "T" not in shape:
        return None
    axes = ["H" if axis == "H_kv" else axis for axis in shape]
    last = len(axes) - 1 - axes[::-1].index("T")
    if last == len(axes) - 2 and axes[-1] == "1":
        return None  # [B, 1, T, 1]: the query axis alone, which is a bug and not a way to spell a mask
    return tuple(
        "T_k" if place == last else "T_q" if axis == "T" else axis for place, axis in enumerate(axes)
    )


_YES = r"(?:\btrue\b|\b1(?:\.0?|s)?(?![\w/])|\bones?\b|non-?zero)"
_NO = r"(?:\bfalse\b|\b0(?:\.0?|s)?(?![\w/])|\bzeros?\b)"
_LOOK = (
    r"(?:attend|allow|keep|kept|visible|valid\b|real\b|look|seen?\b|participat|unmasked|include"
    r"|may be used|actual|part of|takes? part)"
)
_HIDE = (
    r"(?:\bmask|block|hid|ignor|padd?ing|\bpad\b|padded|exclud|drop|disallow|forbid|forbidden"
    r"|invisible|invalid|removed|masked)"
)
_GAP = rf"(?:(?!{_YES}|{_NO})[^.\n;]){{0,60}}?"


#: "by default 0.0": the value of a switch or a rate, and not of a mask's element.
_DEFAULT = re.compile(
    r"\bdefaults?( (value|is|to))*\s*[:=]?\s*[`'\"]*(true|false|none|[-+]?\d[\w.+-]*)", re.I
)


def polarity_of(text: str) -> str | None:
    """What True means, when the text says so."""
    text = _DEFAULT.sub("", text)
    text = re.sub(r"[\[(][^\[\]()]*,[^\[\]()]*[\])]", "", text)  # the 1 of a shape is no value
    text = re.sub(r"\b\w+_\w*", "it", text)  # hidden_states are not hidden
    added = re.search(
        r"\b(added to|(is|are|gets) added|additive|adds? to|-inf\b.*hid|hid\w*.*-inf\b|float bias"
        r"|large negative|negative infinity)",
        text,
        re.I,
    )
    if added and not re.search(r"\btrue\b|\bbool", text, re.I):
        return "additive"
    for marker, same in ((_YES, True), (_NO, False)):
        match = re.search(rf"{marker}({_GAP})({_LOOK}|{_HIDE})", text, re.I)
        if not match:
            # "keep where True", "the keys to hide are True"
            match = re.search(
                rf"({_LOOK}|{_HIDE})\w*(\s+(?:where|when|if|are|is|keys|positions|tokens)){{1,3}}\s+{marker}",
                text,
                re.I,
            )
            if not match:
                continue
            looks = bool(re.match(_LOOK, match[1], re.I))
            return "allowed" if looks == same else "blocked"
        negated = bool(re.search(r"\b(not|never|cannot|can't|no|non|must not|n't)\b", match[1], re.I))
        looks = bool(re.match(_LOOK, match[2], re.I)) != negated
        return "allowed" if looks == same else "blocked"
    return None


def polarity_of_name(name: str) -> str | None:
    """Return what True means in a mask of this name: "allowed", "blocked", "additive"; None when unsaid."""
    plain = name.lower()
    if re.search(r"allow|keep|visible|valid|attend_|is_real|not_pad|non_pad|can_see|may_", plain):
        return "allowed"
    if re.search(r"block|hidden|hide|ignore|drop|key_padding_mask|is_pad|forbid|exclude|masked_out", plain):
        return "blocked"
    if re.search(r"additive|bias", plain):
        return "additive"
    return None
