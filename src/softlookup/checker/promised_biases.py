"""A switch for biases that stops halfway: it is promised for all projections, and one does not follow."""

from __future__ import annotations

import re
from collections.abc import Sequence

from softlookup.checker.calls import Sketch
from softlookup.checker.docstrings import documentation, notes_by_parameter
from softlookup.checker.weight_names import bias_of
from softlookup.checker.wiring import Slot, Wiring

_SWITCH = re.compile(r"(use_|with_|add_|enable_)?bias")
#: Words about a switch that mean the output projection as well.
_FOR_ALL = re.compile(
    r"\b(all|every|each|both)\b[^.;]*\b(layer|projection|linear)s?\b"
    r"|\binput\b[^.;]*\bout(put)?\b|\bout(put)?\b[^.;]*\binput\b",
    re.I,
)

_SHARED = re.compile(r"(in_proj|qkv)_bias$")


def half_biased(sketch: Sketch, wiring: Wiring) -> str:
    """Return in words which projections have a bias and which have none, against what a switch promises.

    "" where they agree, where no switch is said to be for the output projection as well, or where there is
    no output projection.
    """
    switches = [p for p in sketch.init_parameters if _SWITCH.fullmatch(p.name)]
    notes = notes_by_parameter(documentation(sketch), tuple(switches))
    promised = [p.name for p in switches if _FOR_ALL.search(notes.get(p.name, ""))]
    if not promised or not wiring.out:
        return ""
    names = [weight.name for weight in sketch.weights]
    if any(_SHARED.search(name) for name in names):
        return ""  # one vector for projections whose weights lie apart: nn.MultiheadAttention with kdim
    inside, outside = _biased((*wiring.q, *wiring.k, *wiring.v), names), _biased(wiring.out, names)
    if len(inside) != 1 or len(outside) != 1 or inside == outside:
        return ""
    have, lack = ("input", "output") if inside == {True} else ("output", "input")
    return (
        f"{promised[0]} is said to be for all projections, and stops halfway: "
        f"the {have} projection has a bias, the {lack} projection has none."
    )


def _biased(slots: Sequence[Slot], names: Sequence[str]) -> set[bool]:
    return {bias_of(slot.parameter, names) is not None for slot in slots}
