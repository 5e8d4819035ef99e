"""What the page changes in a run: a change is one call of ``softlookup.experiments``, made or written down.

The same object is carried out and written into the saved script, so that the script cannot say anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softlookup.lab.asked import Asked
from softlookup.lab.readings import Reading
from softlookup.terms import SoftlookupError

MOST_CHANGES = 32
MAPS = {"uniform": "uniform_map", "permuted": "permuted_map", "previous token": "previous_token_map"}


@dataclass(frozen=True)
class FromReading:
    """A recording of another text, as an argument. In a script it is a variable."""

    reading: Reading

    @property
    def variable(self) -> str:
        """What it is called in a script."""
        return f"recording_{self.reading.number}"


@dataclass(frozen=True)
class Change:
    """One call that makes an intervention. function: its name in ``softlookup.experiments``."""

    function: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def made(self) -> Any:
        """Return the intervention."""
        from softlookup import experiments

        values = {
            name: it.reading.recording if isinstance(it, FromReading) else it
            for name, it in self.arguments.items()
        }
        return getattr(experiments, self.function)(**values)

    def written(self) -> str:
        """Return the call as Python."""
        pairs = [
            f"{name}={it.variable if isinstance(it, FromReading) else repr(it)}"
            for name, it in self.arguments.items()
        ]
        return f"{self.function}({', '.join(pairs)})"

    def readings(self) -> list[Reading]:
        """Return the other texts that it needs."""
        return [it.reading for it in self.arguments.values() if isinstance(it, FromReading)]


Find = Callable[[Asked, str], Reading]


def read_changes(asked: list[Asked], reading: Reading, find: Find) -> list[Change]:
    """Return the changes that the page asks for.

    reading: the text they are made in;  find: another text, by its number in a field

    Raises: SoftlookupError for an unknown kind, layer, head or position.
    """
    return [KINDS[it.word("kind", list(KINDS))](it, reading, find) for it in asked]


def _where(asked: Asked, reading: Reading) -> dict[str, Any]:
    """Return layer and head; what means all of them is left out."""
    layer = asked.text("layer", 300)
    if layer == "*":
        return {"layer": "*"}
    if layer not in reading.recording.layers:
        raise SoftlookupError(f"lab: no layer {layer!r} was seen in this text.", hint="read the text again")
    head = asked.whole_or_all("head", reading.recording[layer].call.num_heads - 1)
    return {"layer": layer} if head is None else {"layer": layer, "head": head}


def _longest(reading: Reading) -> int:
    return max(it.call.k_len for it in reading.calls)


def _remove_source(asked: Asked, reading: Reading, find: Find) -> Change:
    where = _where(asked, reading)
    query = asked.whole_or_all("query", _longest(reading) - 1)
    rows = {} if query is None else {"query": query}
    return Change("remove_source", {"source": asked.whole("key", _longest(reading) - 1), **where, **rows})


def _freeze_map(asked: Asked, reading: Reading, find: Find) -> Change:
    other = find(asked, "from")
    _same_length(other, reading)
    return Change("freeze_map", {"recording": FromReading(other), **_where(asked, reading)})


def _replace_map(asked: Asked, reading: Reading, find: Find) -> Change:
    return Change(MAPS[asked.word("by", list(MAPS))], _where(asked, reading))


def _ablate(asked: Asked, reading: Reading, find: Find) -> Change:
    how = asked.word("how", ("zero", "mean", "resample"))
    if how == "zero":
        return Change("ablate", _where(asked, reading))
    other = find(asked, "from")
    if how == "resample":
        _same_length(other, reading)
    return Change("ablate", {**_where(asked, reading), "how": how, "reference": FromReading(other)})


def _scale_logits(asked: Asked, reading: Reading, find: Find) -> Change:
    return Change("scale_logits", {"factor": asked.number("factor", -100, 100), **_where(asked, reading)})


def _change_token(asked: Asked, reading: Reading, find: Find) -> Change:
    ids = reading.encoded.ids
    return Change(
        "change_token",
        {"position": asked.whole("position", len(ids) - 1), "token": asked.whole("token", 10_000_000)},
    )


def _same_length(other: Reading, reading: Reading) -> None:
    if len(other.encoded.ids) != len(reading.encoded.ids):
        raise SoftlookupError(
            "lab: maps of one text only fit another text of as many tokens.",
            expected=f"{len(reading.encoded.ids)} tokens",
            got=f"{len(other.encoded.ids)} tokens in {other.text[:40]!r}",
            hint="change single words, so that each token keeps its place",
        )


KINDS: Mapping[str, Callable[[Asked, Reading, Find], Change]] = {
    "remove_source": _remove_source,
    "freeze_map": _freeze_map,
    "replace_map": _replace_map,
    "ablate": _ablate,
    "scale_logits": _scale_logits,
    "change_token": _change_token,
}
