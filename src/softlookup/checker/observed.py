"""What was seen of a module that is judged by its behaviour: how it is called, and what moves what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import torch
from torch import Tensor

from softlookup.checker.calls import Call, Recorded, Sketch, Target, Value
from softlookup.checker.docstrings import documentation, notes_by_parameter, polarity_of, polarity_of_name
from softlookup.checker.find_way import way_to_call
from softlookup.checker.hiding import Hiding, hidden_tokens, hiding_of, open_value
from softlookup.checker.perturbing import Perturbed
from softlookup.checker.reading import Reading
from softlookup.terms import Contract

#: Modules that compute something else in training, and are meant to.
_TRAINING_DIFFERS = ("BatchNorm", "_SpectralNorm", "FakeQuant", "InstanceNorm")


class Observed:
    """One module, how it is called, and what its behaviour shows.

    Raises: NoWayError when it cannot be called.
    """

    def __init__(self, target: Target, reading: Reading, declared: Contract) -> None:
        self.target, self.declared, self.sketch = target, declared, target.sketch
        self.reading = reading = _surely(reading, target.sketch, declared)
        way = way_to_call(target, reading)
        self.seen = Perturbed(target, way.but(weights=_instead_of_zeros(target)))
        self.swapped = self._in_swapped_layout()
        if self.swapped is not None and way.x.layout not in reading.layouts:
            self.seen, self.swapped = self.swapped, None  # a convention that nobody stated: measured
        self.way = self.seen.way
        self.random_line, self.random = self._draws()

    def _in_swapped_layout(self) -> Perturbed | None:
        """The module with batch and tokens swapped, when its samples are then alone, and now are not."""
        layout = self.seen.way.x.layout
        other = {"B T d": "T B d", "T B d": "B T d"}.get(layout)
        leaks = self.seen.neighbours()
        if other is None or leaks is None or not leaks.any():
            return None
        way = self.seen.way
        memory = None if way.memory is None else replace(way.memory, layout=other)
        swapped = Perturbed(self.target, way.but(x=replace(way.x, layout=other), memory=memory))
        moved = swapped.neighbours()
        return None if moved is None or moved.any() else swapped

    def _draws(self) -> tuple[int | None, bool]:
        """Return the line of a dropout that makes two evaluations differ, and whether they differ."""
        again = self.seen.moved(self.seen.first, self.seen.output(self.seen.asked(seed=1)))
        if again is None or not again.any():
            return None, False
        return self.line(_drops), True

    @cached_property
    def influence(self) -> Tensor | None:
        """[rows, places] bool: which token moves which row."""
        return self.seen.influence()

    @cached_property
    def hiding(self) -> Hiding | None:
        """The padding mask, and what it did; None when there is none, or nobody says what True means."""
        return hiding_of(self.target, self.way, self.reading)

    @property
    def looks_ahead(self) -> bool | None:
        """Say whether later tokens move earlier rows; None when that cannot be seen."""
        return self.ahead(self.influence)

    @staticmethod
    def ahead(influence: Tensor | None) -> bool | None:
        """Say the same of other answers: None when no token moves the row of another."""
        if influence is None or influence.shape[0] != influence.shape[1]:
            return None
        if influence.triu(1).any():
            return True
        return False if influence.tril(-1).any() else None

    @property
    def convolves(self) -> bool:
        """True where convolutions beside the lookup may mix neighbours, hidden or not."""
        return any(part.startswith("Conv") for part in self.sketch.parts.values())

    @property
    def training_differs(self) -> bool:
        """True where a part is meant to compute something else in training."""
        own = (self.sketch.name, *self.sketch.bases)
        names = [*own, *self.sketch.parts.values(), *(weight.name for weight in self.sketch.weights)]
        return any(word in name for word in _TRAINING_DIFFERS for name in names)

    @property
    def promises_causal(self) -> bool:
        """True when causality is built in by word, and not left to a switch or a mask."""
        if self.declared.causal is not None:
            return self.declared.causal == "built-in"
        if self.reading.facts.get("causal") != "built-in":
            return False
        off = [path for path, value in self.sketch.settings.items() if "causal" in path and not value]
        masked = [p for p in self.sketch.parameters if self.reading.roles.get(p.name) == "mask"]
        unclear = open_value(self.reading) is None and any(p.required for p in masked)
        return not off and not unclear and (not masked or "causal" in self.sketch.name.lower())

    @property
    def one_mask(self) -> bool:
        """True when the module takes no mask but one: with several, tokens may mix before one counts."""
        masks = {"mask", "unused", "target_mask", "lengths"}
        return sum(role in masks for role in self.reading.roles.values()) <= 1

    def real(self, moved: Tensor) -> Tensor:
        """[B, rows] bool: of the rows that moved, those that are no padding."""
        return moved & ~self.hidden_tokens() if self.way.rows is self.way.keys else moved

    def hidden_tokens(self) -> Tensor:
        """[B, T_k] bool: what the padding mask is asked to hide."""
        return hidden_tokens(self.way, alike=self.hiding is not None and "B" not in self.hiding.spelling.axes)

    def with_mask(self) -> Perturbed | None:
        """The module with the padding mask, whatever that does."""
        if self.hiding is None:
            return None
        return self.given({self.hiding.spelling.parameter: self.hiding.written(self.hidden_tokens())})

    def given(self, values: dict[str, Value]) -> Perturbed:
        """The module with further arguments."""
        return Perturbed(self.target, self.way, values)

    def line(self, wanted: Callable[[Recorded], bool], seen: Perturbed | None = None) -> int | None:
        """Return the line of the last torch call of this sort."""
        records, _ = (seen or self.seen).recorded()
        return next((one.line for one in reversed(records) if wanted(one)), None)

    def line_reading(self, name: str, call: Call, last: frozenset[str] = frozenset()) -> int | None:
        """Return the line of the first torch call that reads this argument.

        last: of the calls with these names, to which the argument flows, the last comes first
        """
        records, serials = self.seen.recorded(call)
        flowing = {serials.get(name)}
        reading = []
        for one in records:
            if flowing & set(one.reads):
                reading.append(one)
                flowing |= set(one.writes)
        named = [one.line for one in reading if one.op in last]
        return named[-1] if named else next((one.line for one in reading), None)


def _surely(reading: Reading, sketch: Sketch, declared: Contract) -> Reading:
    """Forget what True means in a mask where only words about the whole module say so, and it has several."""
    masks = [p.name for p in sketch.parameters if "mask" in p.name]
    name = next((name for name, role in reading.roles.items() if role == "mask"), "")
    note = notes_by_parameter(documentation(sketch), sketch.parameters).get(name, "")
    if len(masks) < 2 or declared.mask is not None or polarity_of(note) or polarity_of_name(name):
        return reading
    return replace(reading, mask_kind=None)


def _drops(one: Recorded) -> bool:
    """Say whether a call drops something now."""
    if one.op == "scaled_dot_product_attention":
        return one.options.get("dropout_p", "0.0") not in {"0", "0.0"}
    return "dropout" in one.op and one.options.get("training") != "False" and one.numbers[:1] != (0.0,)


def _instead_of_zeros(target: Target) -> dict[str, Tensor]:
    """Random numbers for projections that begin as zeros: through them nothing could be seen."""
    random = torch.Generator().manual_seed(9)
    trained = {weight.name for weight in target.sketch.weights if weight.trained}
    return {
        name: torch.randn(value.shape, generator=random).to(value.dtype) * 0.2
        for name, value in target.own_weights().items()
        if name in trained and value.dim() >= 2 and value.is_floating_point() and not value.any()
    }
