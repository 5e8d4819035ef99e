"""Interventions as they are spelled on a command line: read, made, and written down as Python."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from softlookup.terms import SoftlookupError, did_you_mean

MAPS = {"uniform": "uniform_map", "previous": "previous_token_map", "permuted": "permuted_map"}


@dataclass(frozen=True)
class Spelled:
    """One call that makes an intervention. function: its name in ``softlookup.experiments``

    variables: arguments that stand in Python under a name, and their values
    """

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, tuple[str, Any]] = field(default_factory=dict)

    def made(self) -> Any:
        """Return the intervention."""
        from softlookup import experiments

        if self.function == "change_token":
            return functools.partial(experiments.change_token, **self.arguments)
        more = {name: value for name, (_, value) in self.variables.items()}
        return getattr(experiments, self.function)(**self.arguments, **more)

    def written(self) -> str:
        """Return the call as Python."""
        pairs = [f"{name}={value!r}" for name, value in self.arguments.items()]
        if self.function == "change_token":
            return f"functools.partial(change_token, {', '.join(pairs)})"
        pairs += [f"{name}={variable}" for name, (variable, _) in self.variables.items()]
        return f"{self.function}({', '.join(pairs)})"

    def at(self, layer: str, head: int) -> Spelled:
        """Return the same at another head."""
        return replace(self, arguments={**self.arguments, "layer": layer, "head": head})


def read_place(
    text: str, layers: Sequence[str], option: str, *, parts: int = 2
) -> tuple[str, tuple[int, ...]]:
    """Return the path of a layer, and the whole numbers behind it.

    text: e.g. "3:2", or "model.layers.3.self_attn:2";  layers: paths, which a number counts from 0; "3.2" is
        how pages of maps name the head "3:2"
    parts: how many parts there must be, with the layer

    Raises: SoftlookupError for another number of parts, what is no number, or an unknown layer.
    """
    layer, *numbers = text.split(":")
    if len(numbers) == parts - 2 and layer not in layers and re.fullmatch(r"\d+\.\d+", layer):
        layer, *numbers = *layer.split("."), *numbers
    if len(numbers) != parts - 1 or not all(it.lstrip("-").isdigit() for it in numbers):
        form, example = (":".join(it[:parts]) for it in (("LAYER", "HEAD", "QUERY"), ("3", "5", "7")))
        raise SoftlookupError(
            f"experiment: {option} could not be read.", expected=f"{form}, e.g. {example}", got=repr(text)
        )
    return layer_path(layer, layers, option), tuple(map(int, numbers))


def layer_path(layer: str, layers: Sequence[str], option: str) -> str:
    """Return the path of a layer that is given by its path or its number; "*" is all of them.

    Raises: SoftlookupError for an unknown one.
    """
    if layer in layers or layer == "*":
        return layer
    if layer.isdigit() and int(layer) < len(layers):
        return layers[int(layer)]
    raise SoftlookupError(
        f"experiment: {option} names a layer that the model does not have.",
        expected=f"0..{len(layers) - 1}, or a path such as {layers[0]!r}",
        got=repr(layer),
        hint=did_you_mean(layer, layers),
    )


def read_ablation(text: str, layers: Sequence[str], recordings: Sequence[Any]) -> Spelled:
    """Read LAYER:HEAD[:zero|mean]; the mean is that over the inputs themselves, recorded."""
    place, _, how = text.rpartition(":")
    if how not in ("zero", "mean"):
        place, how = text, "zero"
    layer, (head,) = read_place(place, layers, "--ablate")
    if how == "zero":
        return Spelled("ablate", {"layer": layer, "head": head})
    return Spelled(
        "ablate", {"layer": layer, "head": head, "how": how}, {"reference": ("recordings", recordings)}
    )


def read_removal(text: str, layers: Sequence[str]) -> Spelled:
    """Read POSITION[@LAYER[:HEAD]]; without a layer, the key is removed in all of them."""
    position, _, place = text.partition("@")
    arguments = {"position": _whole(position, "--remove", "POSITION[@LAYER[:HEAD]], e.g. 4@2:5")}
    if not place:
        return Spelled("remove_source", {**arguments, "layer": "*"})
    if ":" not in place:
        return Spelled("remove_source", {**arguments, "layer": layer_path(place, layers, "--remove")})
    layer, (head,) = read_place(place, layers, "--remove")
    return Spelled("remove_source", {**arguments, "layer": layer, "head": head})


def read_map(text: str, layers: Sequence[str]) -> Spelled:
    """Read NAME@LAYER:HEAD."""
    name, at, place = text.partition("@")
    if name not in MAPS or not at:
        raise SoftlookupError(
            "experiment: --map could not be read.",
            expected=f"NAME@LAYER:HEAD, with one of {', '.join(MAPS)}",
            got=repr(text),
            hint=did_you_mean(name, MAPS),
        )
    layer, (head,) = read_place(place, layers, "--map")
    return Spelled(MAPS[name], {"layer": layer, "head": head})


def read_scale(text: str, layers: Sequence[str]) -> Spelled:
    """Read FACTOR@LAYER:HEAD."""
    number, at, place = text.partition("@")
    try:
        factor = float(number)
    except ValueError:
        at = ""
    if not at:
        raise SoftlookupError(
            "experiment: --scale could not be read.",
            expected="FACTOR@LAYER:HEAD, e.g. 0.5@2:5",
            got=repr(text),
        )
    layer, (head,) = read_place(place, layers, "--scale")
    return Spelled("scale_logits", {"factor": factor, "layer": layer, "head": head})


def read_change(text: str, token_id: Any) -> Spelled:
    """Read POSITION=TOKEN. token_id: from a text to one id"""
    position, equals, token = text.partition("=")
    form = "POSITION=TOKEN, e.g. 3=dog"
    if not equals:
        raise SoftlookupError("experiment: --token could not be read.", expected=form, got=repr(text))
    return Spelled("change_token", {"position": _whole(position, "--token", form), "token": token_id(token)})


def _whole(text: str, option: str, form: str) -> int:
    if not text.isdigit():
        raise SoftlookupError(f"experiment: {option} could not be read.", expected=form, got=repr(text))
    return int(text)
