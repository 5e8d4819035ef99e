"""What the page changes in a run: a change is one call of ``softlookup.experiments``, made or written down.

The same object is carried out and written into the saved script, so that the script cannot say anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from softlookup.lab.asked import Asked
from softlookup.lab.readings import Reading
from softlookup.model_texts import Texts
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


@dataclass(frozen=True, eq=False)
class Setting:
    """What changes are read in. reading: the text;  find: another text, by its number in a field"""

    reading: Reading
    texts: Texts
    find: Callable[[Asked, str], Reading]


@dataclass(frozen=True)
class Changes:
    """All that is changed in one run: tokens of what the model is given, and steps of its attention."""

    tokens: tuple[Change, ...]
    steps: tuple[Change, ...]

    def written(self) -> list[str]:
        """Return the calls as Python."""
        return [it.written() for it in (*self.tokens, *self.steps)]

    def given(self, unchanged: Any) -> Any:
        """Return what the changed run is given."""
        from softlookup.experiments import change_token

        for it in self.tokens:
            unchanged = change_token(unchanged, **it.arguments)
        return unchanged


def read_changes(asked: list[Asked], setting: Setting) -> Changes:
    """Return the changes that the page asks for.

    Raises: SoftlookupError for an unknown kind, layer, head, position or token.
    """
    found = [KINDS[it.word("kind", list(KINDS))](it, setting) for it in asked]
    tokens = tuple(it for it in found if it.function == "change_token")
    return Changes(tokens, tuple(it for it in found if it.function != "change_token"))


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


def _remove_source(asked: Asked, setting: Setting) -> Change:
    reading = setting.reading
    key = asked.whole("key", _longest(reading) - 1)
    query = asked.whole_or_all("query", _longest(reading) - 1)
    rows = {} if query is None else {"query": query}
    return Change("remove_source", {"position": key, **_where(asked, reading), **rows})


def _freeze_map(asked: Asked, setting: Setting) -> Change:
    other = setting.find(asked, "from")
    _same_length(other, setting.reading)
    return Change("freeze_map", {"recording": FromReading(other), **_where(asked, setting.reading)})


def _replace_map(asked: Asked, setting: Setting) -> Change:
    return Change(MAPS[asked.word("by", list(MAPS))], _where(asked, setting.reading))


def _ablate(asked: Asked, setting: Setting) -> Change:
    how, where = asked.word("how", ("zero", "mean", "resample")), _where(asked, setting.reading)
    if how == "zero":
        return Change("ablate", where)
    other = setting.find(asked, "from")
    if how == "resample":
        _same_length(other, setting.reading)
    return Change("ablate", {**where, "how": how, "reference": FromReading(other)})


def _scale_logits(asked: Asked, setting: Setting) -> Change:
    factor = asked.number("factor", -100, 100)
    return Change("scale_logits", {"factor": factor, **_where(asked, setting.reading)})


def _change_token(asked: Asked, setting: Setting) -> Change:
    encoded = setting.reading.encoded.source or setting.reading.encoded
    position = asked.whole("position", len(encoded.ids) - 1)
    token = setting.texts.single(asked.text("text", 100), instead_of=encoded.tokens[position])
    return Change("change_token", {"position": position, "token": token})


def _same_length(other: Reading, reading: Reading) -> None:
    if len(other.encoded.ids) != len(reading.encoded.ids):
        raise SoftlookupError(
            "lab: maps of one text only fit another text of as many tokens.",
            expected=f"{len(reading.encoded.ids)} tokens",
            got=f"{len(other.encoded.ids)} tokens in {other.text[:40]!r}",
            hint="change single words, so that each token keeps its place",
        )


KINDS: Mapping[str, Callable[[Asked, Setting], Change]] = {
    "remove_source": _remove_source,
    "freeze_map": _freeze_map,
    "replace_map": _replace_map,
    "ablate": _ablate,
    "scale_logits": _scale_logits,
    "change_token": _change_token,
}
