"""How far a learner is: one small JSON file, replaced as a whole, so that an interruption cannot spoil it."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from softlookup.learn.judgement import Judgement
from softlookup.terms import SoftlookupError

FILE = "progress.json"
_VERSION = 1


@dataclass
class Record:
    """What happened with one exercise."""

    state: str = "not written"
    tries: int = 0  # judged files that were neither unwritten nor the same as before
    hints: int = 0  # shown so far
    solution_shown: bool = False
    met: list[str] = field(default_factory=list)  # names of mistakes that were made, each once
    solved_on: str = ""  # a date


@dataclass
class Card:
    """How a question of the quiz stands: see ``softlookup.learn.repetition``."""

    box: int = 0
    due: str = ""  # a date; "" is at once
    right: int = 0
    wrong: int = 0


class Progress:
    """The progress file of one folder. Every change is written at once."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self.records: dict[str, Record] = {}
        self.cards: dict[str, Card] = {}
        self.read()

    def read(self) -> None:
        """Read what is there; another process may have written since."""
        if not self.path.exists():
            return
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            self.records = {name: Record(**it) for name, it in data["exercises"].items()}
            self.cards = {name: Card(**it) for name, it in data["quiz"].items()}
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise SoftlookupError(
                "learn: the progress could not be read.",
                expected=f"the file that softlookup wrote at {self.path}",
                got=f"{type(error).__name__}: {error}",
                hint="move it away; `softlookup learn check --all` then finds what is solved already",
            ) from None

    def of(self, exercise: str) -> Record:
        """Return what happened with an exercise."""
        return self.records.setdefault(exercise, Record())

    def card(self, question: str) -> Card:
        """Return how a question stands."""
        return self.cards.setdefault(question, Card())

    def note(self, judgement: Judgement) -> None:
        """Count a try."""
        self.read()
        record = self.of(judgement.exercise)
        if judgement.state != "not written":
            record.tries += 1
        record.met += [name for name in judgement.names() if name not in record.met]
        record.state = judgement.state
        if judgement.solved and not record.solved_on:
            record.solved_on = date.today().isoformat()
        self.write()

    def one_more_hint(self, exercise: str, most: int) -> int:
        """Count a hint, and return how many are shown now."""
        record = self.of(exercise)
        record.hints = min(record.hints + 1, most)
        self.write()
        return record.hints

    def write(self) -> None:
        """Replace the file as a whole."""
        data: dict[str, Any] = {
            "version": _VERSION,
            "exercises": {name: asdict(it) for name, it in self.records.items()},
            "quiz": {name: asdict(it) for name, it in self.cards.items()},
        }
        handle, waiting = tempfile.mkstemp(dir=self.path.parent, prefix=".progress-", suffix=".json")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(json.dumps(data, indent=1) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(waiting, self.path)
        except BaseException:
            Path(waiting).unlink(missing_ok=True)
            raise
