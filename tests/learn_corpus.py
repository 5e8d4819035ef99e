"""Learners' files, judged in this process: hundreds of children would each import torch.

Wrong solutions are in tests/learn/wrong/NAME_OF_EXERCISE.py, one after another, each under a line

    # === name-of-the-mistake other-name: how it is written

with the names that it must get, in order. A section is a whole file; torch, math, nn and F are imported.
"""

import ast
import re
from pathlib import Path
from types import ModuleType

from softlookup.checker.calling import failure_of
from softlookup.checker.guard import TargetError
from softlookup.checker.target import LocalTarget
from softlookup.learn.exercise import all_exercises
from softlookup.learn.judgement import Judgement, Remark
from softlookup.learn.judging import judge_session
from softlookup.terms import Finding

WRONG = Path(__file__).parent / "learn" / "wrong"
_IMPORTS = "import math; import torch; from torch import nn, Tensor; import torch.nn.functional as F\n"
_HEAD = re.compile(r"^# === ([a-zA-Z0-9 -]+)(?::.*)?$", re.M)


class LocalSession:
    """The same questions as to a file in a child."""

    def __init__(self, path, source):
        self.module = ModuleType("learner")
        self.loading_failure = None
        try:
            exec(compile(source, str(path), "exec"), vars(self.module))
        except Exception as error:
            self.loading_failure = failure_of(error, str(path))

    def target(self, name, init=None):
        found = self.module
        try:
            for part in name.split("."):
                found = getattr(found, part)
                found = found(**(init or {})) if isinstance(found, type) else found
        except Exception as error:
            raise TargetError(f"no target {name}: {type(error).__name__}: {error}") from None
        return LocalTarget(found, name)


def judged(exercise, path, text):
    """Return the judgement of a text, which is written to ``path``."""
    path.write_text(text, encoding="utf-8")
    try:
        ast.parse(text)
    except SyntaxError as error:
        return Judgement(
            exercise.name, str(path), "wrong", (Remark(Finding("", "syntax-error", str(error))),)
        )
    return judge_session(exercise, path, text, LocalSession(path, text))


def wrong_solutions(exercise):
    """Return (names that are due, text) of each wrong solution of an exercise."""
    file = WRONG / f"{exercise.name.replace('-', '_')}.py"
    pieces = _HEAD.split(file.read_text(encoding="utf-8"))
    return [(names.split(), _IMPORTS + text) for names, text in zip(pieces[1::2], pieces[2::2], strict=True)]


EXERCISES = all_exercises()
