"""One model in the lab, and what is done with it: each request becomes work for the one thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from softlookup.lab.asked import Asked
from softlookup.lab.changes import MOST_CHANGES, Changes, Setting, read_changes
from softlookup.lab.jobs import Jobs, Progress, Work
from softlookup.lab.outcomes import MEANS, compared, outcome_of
from softlookup.lab.python_script import Script
from softlookup.lab.readings import Reading, facts_of, map_facts, top_of
from softlookup.lab.verdicts import Place, verdict_on_place
from softlookup.model_texts import MOST_CHARACTERS, texts_for
from softlookup.terms import SoftlookupError
from softlookup.viewer.colours import as_hex, difference_colours, weight_colours
from softlookup.viewer.token_text import shown

if TYPE_CHECKING:
    from softlookup.recording import Recording

MOST_READINGS = 4  # texts whose recordings are kept: queries and keys of every layer


class Session:
    """A model, the texts it has read, and the thread that owns both.

    model: switched to evaluation, since a page that shows it twice must show the same
    path: where it came from, as scripts load it again
    """

    def __init__(self, model: nn.Module, path: str, most_tokens: int = 512) -> None:
        self.model, self.path = model.eval(), path
        self.texts = texts_for(model, path, most_tokens, doing="lab")
        self.jobs = Jobs()
        self._readings: dict[int, Reading] = {}
        self._changed: tuple[int, Recording] | None = None
        self._numbers = 0
        self._does: dict[str, Callable[[Asked], Work]] = {
            "read": self._read,
            "map": self._map,
            "predictions": self._predictions,
            "compare": self._compare,
            "verdict": self._verdict,
        }

    @property
    def name(self) -> str:
        """What the page calls the model."""
        place = Path(self.path)
        return f"{place.parent.name}/{place.name}" if place.is_dir() and place.parent.name else place.name

    def about(self) -> dict[str, Any]:
        """Return what the page needs to know before a text is read."""
        sizes = [it.numel() for it in self.model.parameters()]
        return {
            "name": self.name,
            "class": type(self.model).__name__,
            "parameters": sum(sizes),
            "tokenizer": self.texts.tokenizer is not None,
            "encoder_decoder": self.texts.encoder_decoder,
            "most_tokens": self.texts.most,
            "most_characters": MOST_CHARACTERS,
            "outcomes": MEANS,
            "colours": {
                "weights": as_hex(weight_colours()),
                "differences": as_hex(difference_colours()),
                "differences_dark": as_hex(difference_colours(dark=True)),
            },
        }

    def work(self, fields: dict[str, Any]) -> tuple[str, Work]:
        """Return the kind of a request and what carries it out.

        Raises: SoftlookupError when it cannot be carried out.
        """
        asked = Asked(fields)
        kind = asked.word("do", list(self._does))
        return kind, self._does[kind](asked)

    def close(self) -> None:
        """End the thread."""
        self.jobs.close()

    def _found(self, asked: Asked, name: str = "reading") -> Reading:
        reading = self._readings.get(asked.whole(name, 10**9))
        if reading is None:
            raise SoftlookupError(
                "lab: this text is no longer kept.",
                expected=f"one of the last {MOST_READINGS}",
                hint="read it again",
            )
        return reading

    def _read(self, asked: Asked) -> Work:
        text, target = asked.text("text", MOST_CHARACTERS), asked.text("target", MOST_CHARACTERS, "")

        def work(progress: Progress) -> dict[str, Any]:
            progress.said("reading the text")
            encoded = self.texts.encode(text, target)
            progress.said("running the model")
            recording = self._recorded(encoded.given)
            self._numbers += 1
            outcome = outcome_of(self.model, recording.output)
            reading = Reading(self._numbers, text, target, encoded, recording, outcome)
            facts = facts_of(reading, self.texts, progress.said)
            self._readings = dict([*self._readings.items(), (reading.number, reading)][-MOST_READINGS:])
            return facts | {"python": Script(self.path, self.texts, reading).reading()}

        return work

    def _map(self, asked: Asked) -> Work:
        reading = self._found(asked)
        place = asked.whole("place", len(reading.calls) - 1)
        head = asked.whole("head", reading.calls[place].call.num_heads - 1)
        which = asked.word("which", ("unchanged", "changed"), "unchanged")

        def work(progress: Progress) -> dict[str, Any]:
            progress.said("drawing the map")
            recording = reading.recording
            if which == "changed":
                if self._changed is None or self._changed[0] != reading.number:
                    raise SoftlookupError("lab: no run of this text was changed.", hint="run an experiment")
                recording = self._changed[1]
            return map_facts(recording.calls[place], head)

        return work

    def _predictions(self, asked: Asked) -> Work:
        reading, at = self._measured_at(asked)
        return lambda progress: {"top": top_of(reading.outcome, at, self.texts)}

    def _measured_at(self, asked: Asked) -> tuple[Reading, int]:
        reading = self._found(asked)
        return reading, asked.whole("at", len(reading.encoded.ids) - 1)

    def _compare(self, asked: Asked) -> Work:
        reading, at = self._measured_at(asked)
        setting = Setting(reading, self.texts, self._found)
        changes = read_changes(asked.objects("changes", MOST_CHANGES), setting)

        def work(progress: Progress) -> dict[str, Any]:
            progress.said("running the changed model")
            recording = self._changed_run(reading, changes)
            self._changed = (reading.number, recording)
            progress.said("comparing")
            name = self.texts.class_name if reading.outcome.kind == "classes" else self._shown_token
            found = compared(reading.outcome, outcome_of(self.model, recording.output), at, name)
            script = Script(self.path, self.texts, reading).comparison(changes, at)
            return found | {"changes": changes.written(), "python": script}

        return work

    def _changed_run(self, reading: Reading, changes: Changes) -> Recording:
        given = changes.given(reading.encoded.given)
        return self._recorded(given, *[it.made() for it in changes.steps])

    def _recorded(self, given: Any, *steps: Any) -> Recording:
        """Run the model; the unchanged one without torch's fast paths too, so that only changes differ."""
        from softlookup.experiments import intervene
        from softlookup.recording import record_attention

        with torch.no_grad(), intervene(self.model, *steps):
            if isinstance(given, dict):
                return record_attention(self.model, **given)
            return record_attention(self.model, *given)

    def _verdict(self, asked: Asked) -> Work:
        reading, at = self._measured_at(asked)
        place = asked.whole("place", len(reading.calls) - 1)
        call = reading.calls[place].call
        head, query = asked.whole("head", call.num_heads - 1), asked.whole("query", call.q_len - 1)
        row = Place(call.layer, head, query, at)

        def work(progress: Progress) -> dict[str, Any]:
            progress.said("asking what each key does")
            facts = verdict_on_place(self.model, reading, row, progress)
            return facts | {"python": Script(self.path, self.texts, reading).verdict(row)}

        return work

    def _shown_token(self, number: int) -> str:
        return shown(self.texts.token(number))
