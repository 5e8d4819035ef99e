"""What a target says about the causal rule: in its name, its documentation and its switches."""

from __future__ import annotations

import re

from softlookup.checker.calls import Parameter, Sketch
from softlookup.checker.docstrings import notes_by_parameter

_SWITCH = re.compile(r"_?(is_)?causal(_attention|_attn|_mask)?", re.I)
_NOT_CAUSAL = re.compile(
    r"non[- ]?causal|not causal|bidirectional|full attention|every query sees every key|no causal"
)
_CAUSAL = re.compile(
    r"\bcausal|autoregressive|look[- ]?ahead"
    r"|(never|not|cannot) (see|look|attend)\w* (at |to )?(the )?(future|later)"
)
_NO_MASK = r"(no( \w+)? mask|without an? (\w+ )?mask|mask is (none|not (given|provided|passed|specified)))"
_DECIDES_ALONE = (
    re.compile(rf"\b{_NO_MASK}\b[^.;]{{0,40}}\bcausal\b"),
    re.compile(rf"\bcausal\b[^.;]{{0,60}}\b(if|when|where|with|unless)\b[^.;]{{0,20}}\b{_NO_MASK}\b"),
    re.compile(r"\bcausal\b[^.;]{0,20}\bunless an? (\w+ )?mask\b"),
    re.compile(r"\bmask\b[^.;]{0,40}\b(replaces|overrides|takes the place of)\b[^.;]{0,30}\bcausal\b"),
)


def causal_promise(sketch: Sketch, doc: str, *, has_argument: bool) -> str | None:
    """Return "argument", "none" or "built-in"; None when nothing is said.

    What this instance was built with comes before words that are about all of its class.
    """
    name = sketch.name.lower()
    rest = _said_of_this_one(sketch, doc)
    if has_argument:
        return "argument"
    if any(_SWITCH.fullmatch(switch) for switch in _switched_off(sketch)):
        return "none"
    if re.search(r"noncausal|bidirectional|full_attention", name) or _NOT_CAUSAL.search(rest):
        return "none"
    if re.search(r"causal|autoregress|decoder_self|masked_self", name) or _CAUSAL.search(rest):
        return "built-in"
    return None


def mask_decides_alone(doc: str) -> bool:
    """Say whether the words promise the causal rule only where no mask is given."""
    text = " ".join(doc.lower().split())
    return any(pattern.search(text) for pattern in _DECIDES_ALONE)


def _switched_off(sketch: Sketch) -> list[str]:
    return [name for name, value in sketch.settings.items() if value is False and "." not in name]


def _said_of_this_one(sketch: Sketch, doc: str) -> str:
    """Leave out what is said of parameters, and of switches that are off in this instance."""
    off = tuple(Parameter(name, "positional", False) for name in _switched_off(sketch))
    return notes_by_parameter(doc, (*sketch.parameters, *off)).get("", "").lower()
