"""What a target says about itself: names, annotations and docstrings, read and never run.

A role is what a parameter is for; a declaration is a meaning that the author wrote down. Declarations are
held against the target later, everything else is measured.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from softlookup.checker.calls import Sketch
from softlookup.checker.causal_words import causal_promise, mask_decides_alone
from softlookup.checker.docstrings import (
    documentation,
    free_shape,
    layout_from_name,
    layout_of,
    mask_axes_of,
    mask_values_of,
    notes_by_parameter,
    packed_layout_of,
    polarity_of,
    polarity_of_name,
    shapes_in,
)
from softlookup.checker.parameter_roles import roles_of
from softlookup.checker.scales import declared_scale

_OF_MEMORY = re.compile(r"enc|context|ctx|mem|cross|src|source|cond", re.I)
_CROSS = re.compile(r"_?(is_)?cross(_attn|_attention)?")  # a switch of the module itself
_OF_TARGET = re.compile(r"^(q|query|queries|x|tgt|trg|target|dec|decoder|latents?)_", re.I)
_BETWEEN = re.compile(r"att", re.I)  # who may look at whom: not which tokens are padding
#: What comes back hidden as -inf says nothing about what a mask is made of.
_RETURNED = re.compile(r"\breturns?\b[^.;]*\b(logits|scores)\b[^.;]*", re.I)
_ADDED = re.compile(r"\bfloat|\badditive", re.I)  # numbers may take the place of True and False


@dataclass(frozen=True)
class Use:
    """One way to use a module that takes several masks, or a memory that may be left out."""

    mask: str | None = None  # the mask that is given
    memory: bool | None = None  # whether the memory is given; None leaves it as the names say
    of_target: tuple[str, ...] = ()  # masks that say which tokens of the target are real
    added: bool = False  # the mask is given as numbers that are added to the scores

    def role(self, name: str, role: str) -> str:
        """Return the role that a parameter has in this use."""
        if role == "memory" and self.memory is not None:
            return "memory" if self.memory else "unused"
        if role != "mask" or name == self.mask:
            return role
        return "target_mask" if name in self.of_target else "unused"


@dataclass(frozen=True)
class Reading:
    """Everything that a sketch states."""

    roles: dict[str, str]  # parameter name -> role
    layouts: tuple[str, ...] = ()  # axes of q; several when the author promises several
    key_layout: str | None = None
    packed_layout: str | None = None
    mask_kind: str | None = None
    target_mask_kind: str | None = None
    mask_axes: tuple[str, ...] | None = None
    mask_values: tuple[str, ...] = ()  # of "bool", "int", "float", when the author says so
    integer_mask: bool = False
    facts: dict[str, Any] = field(default_factory=dict)  # declared fields of Contract
    window_counts: str | None = None  # "keys" (itself included) or "lookback"
    mask_decides_alone: bool = False  # the causal rule is promised only where no mask is given
    words: str = ""  # name and documentation, for the variants to recognise themselves
    without: str = ""  # the memory that this use leaves out

    def uses(self, sketch: Sketch) -> list[Use]:
        """Return the uses that a module promises: without and with its memory, each with every mask of it."""
        notes = notes_by_parameter(documentation(sketch), sketch.parameters)
        found = self._uses(sketch)
        added = [replace(use, added=True) for use in found if _may_be_added(notes.get(use.mask or "", ""))]
        return found + added

    def _uses(self, sketch: Sketch) -> list[Use]:
        built_for_memory = _built_for_memory(sketch)
        masks = [name for name, role in self.roles.items() if role == "mask"]
        memory = next((name for name, role in self.roles.items() if role == "memory"), None)
        if memory is None:
            return [Use(mask) for mask in masks] or [Use()]
        required = any(p.name == memory and p.required for p in sketch.parameters)
        of_memory = [name for name in masks if _OF_MEMORY.search(name)] if len(masks) > 1 else masks
        of_target = tuple(name for name in masks if name not in of_memory)
        tokens = tuple(name for name in of_target if _marks_tokens(name, of_memory))
        alone = [Use(mask, False) for mask in of_target or masks] or [Use(None, False)]
        both = [Use(mask, True, tokens) for mask in of_memory or masks] or [Use(None, True)]
        if built_for_memory is not None and not required:
            return both if built_for_memory else alone
        return both if required else alone + both


def _may_be_added(words: str) -> bool:
    """Say whether a mask that holds True and False may hold numbers as well, which are added."""
    return polarity_of(words) in {"allowed", "blocked"} and bool(_ADDED.search(words)) and "added" in words


def _built_for_memory(sketch: Sketch) -> bool | None:
    """Say for which of its uses a module was built, where a switch that it holds tells."""
    told = [bool(v) for name, v in sketch.settings.items() if _CROSS.fullmatch(name)]
    if told:
        return told[0]
    causal = any(parameter.name == "is_causal" for parameter in sketch.init_parameters)
    # Built to be causal: the target looks at itself.
    return False if causal and sketch.settings.get("is_causal") else None


def _marks_tokens(name: str, of_memory: Iterable[str]) -> bool:
    """Say whether a mask marks tokens of the target: so its name says, or the memory's mask is its twin."""
    twin = any(other.endswith(name) for other in of_memory)
    return twin or bool(_OF_TARGET.search(name) and not _BETWEEN.search(name))


def read(sketch: Sketch, use: Use | None = None) -> Reading:
    """Read a sketch; with ``use`` only what that use of it gives."""
    roles = _without_masks_of_others(roles_of(sketch.parameters, sketch.has_weights), sketch)
    doc = documentation(sketch)
    notes = notes_by_parameter(doc, sketch.parameters)
    if "mask" not in roles.values():
        unknown = [
            p.name for p in sketch.parameters if p.name not in roles and polarity_of(notes.get(p.name, ""))
        ]
        roles |= dict.fromkeys(unknown[:1], "mask")
    if "mask" not in roles.values():
        roles = {
            name: "mask" if role == "bias" and _hides(notes.get(name, "")) else role
            for name, role in roles.items()
        }

    without = ""
    if use is not None:
        without = next((n for n, r in roles.items() if r == "memory" and use.memory is False), "")
        roles = {name: use.role(name, role) for name, role in roles.items()}

    def of(role: str) -> str:
        return next((name for name, r in roles.items() if r == role), "")

    q, k, qkv, mask = of("q"), of("k"), of("qkv"), of("mask")
    annotations = {p.name: p.annotation for p in sketch.parameters}
    first_is_batch = bool(re.search(r"[\[(]\s*n\s*,(\s*[\w*]+\s*,){1,3}", doc, re.I))

    def shape(name: str) -> tuple[str, ...] | None:
        found = shapes_in(notes.get(name, ""), first_is_batch) or shapes_in(
            annotations.get(name, ""), first_is_batch
        )
        return found[0] if found else None

    stated = [
        layout_of(found)
        for found in shapes_in(notes.get(q, ""), first_is_batch) or shapes_in(annotations.get(q, ""))
    ]
    layouts: Sequence[str | None] = [found for found in stated if found] or [
        layout_from_name(sketch.name),
        layout_of(free_shape(notes.get("", ""))),
    ]
    mask_text = notes.get(mask, "") if mask else ""
    mask_doc = mask_text or (_RETURNED.sub("", notes.get("", "")) if mask else "")
    kind = polarity_of(mask_doc) or (polarity_of_name(mask) if mask else None)
    if use is not None and use.added:
        kind = "additive"
    target_mask = of("target_mask")
    return Reading(
        roles=roles,
        layouts=_unlike(layouts),
        key_layout=layout_of(shape(k)),
        packed_layout=packed_layout_of(shape(qkv)),
        mask_kind=kind,
        target_mask_kind=polarity_of(notes.get(target_mask, "")) or polarity_of_name(target_mask),
        mask_axes=mask_axes_of(shape(mask)) if mask else None,
        mask_values=mask_values_of(mask_text + " " + annotations.get(mask, "")) if mask else (),
        integer_mask=bool(
            re.search(
                r"\bint|uint8|byte|long\b|\b[01]\s*(/|or|and|=|means|for|where|marks)\s*",
                mask_doc + annotations.get(mask, ""),
                re.I,
            )
        ),
        facts=_facts(sketch, doc, roles),
        window_counts=_window_counts(notes.get(of("window"), "") + " " + notes.get("", "")),
        mask_decides_alone=mask_decides_alone(doc),
        words=f"{sketch.name} {' '.join(roles)}\n{doc}".lower(),
        without=without,
    )


def _without_masks_of_others(roles: dict[str, str], sketch: Sketch) -> dict[str, str]:
    """Leave out optional masks of what is not given: ``mem_mask`` says nothing without ``mem``."""
    left_out = {p.name for p in sketch.parameters if p.name not in roles}
    optional = {p.name for p in sketch.parameters if not p.required}
    owners = {n: n.removesuffix("_mask") for n in optional if n.endswith("_mask")}
    strange = {name for name, owner in owners.items() if {owner, f"{owner}s"} & left_out}
    return {name: role for name, role in roles.items() if role != "mask" or name not in strange}


def _hides(text: str) -> bool:
    """A bias that hides keys is a mask."""
    return bool(re.search(r"-inf|hidden|hides|masked|may not", text, re.I))


def _unlike(layouts: Iterable[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(layout for layout in layouts if layout))


def _facts(sketch: Sketch, doc: str, roles: dict[str, str]) -> dict[str, Any]:
    """Declared fields of the contract, from the name and the documentation."""
    facts: dict[str, Any] = {}
    text = " ".join(doc.lower().split())
    promised = causal_promise(sketch, doc, has_argument="causal" in roles.values())
    if promised is not None:
        facts["causal"] = promised
    if re.search(
        r"bottom.?right|last query\b.{0,60}\blast key|newest query sees every"
        r"|decod\w+ with a (kv |key/value )?cache",
        text,
    ):
        facts["corner"] = "bottom-right"
    elif re.search(r"top.?left|first query\b.{0,40}\bfirst key|counted from the first key", text):
        facts["corner"] = "top-left"
    if re.search(
        r"strictly (causal|earlier|before|past)|self[- ]excluded|exclud\w+ (it)?self"
        r"|only (strictly )?earlier|not itself|excluding the (query|token) itself",
        text,
    ):
        facts["self_visible"] = False
    if re.search(
        r"(row|quer)\w*\b[^.]{0,60}\b(no|nothing|nowhere|without|zero|empty|fully|entirely)\b[^.]{0,70}\b(zeros?|0)\b",
        text,
    ):
        facts["empty_rows"] = "zero"
    if re.search(r"uninitiali[sz]ed|garbage|(may|can) (hold|contain|be) (nan|anything|inf)", text):
        facts["hidden_nan"] = "isolated"
    if re.search(
        r"\bhalf\b|float16|fp16|bf16|mixed precision|autocast|any float|every float|float dtype", text
    ):
        facts["half"] = True
    if re.search(r"(unscaled|no scal(e|ing)|without scal(e|ing)|not scaled)\b", text):
        facts["scale"] = 1.0
    elif (told := declared_scale(sketch)) is not None:
        facts["scale"] = told
    if any("average" in p.name for p in sketch.parameters):
        pass  # the caller decides
    elif re.search(r"\b(averag\w+|mean) over (the )?heads|head[- ]averaged", text):
        facts["weights"] = "averaged"
    elif re.search(
        r"per[- ]head weights|weights[^.]{0,30}\b(per|(of|for) (each|every)) head"
        r"|weights[^.\n]{0,12}[\[(]b(atch)?, ?(h\b|heads|num_heads)",
        text,
    ):
        facts["weights"] = "per head"
    return facts


def _window_counts(text: str) -> str | None:
    if re.search(
        r"itself included|including itself|itself and|included"
        r"|keys (each|a|that a) query sees|counts? (the )?(query )?itself|inclusive",
        text,
        re.I,
    ):
        return "keys"
    if re.search(r"look(s|ing)? back|before it|to the left|earlier keys|previous keys|preceding", text, re.I):
        return "lookback"
    return None
