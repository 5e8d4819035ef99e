"""Run lints over files: leave out what cannot hold a trap, parse the rest once, note what is silenced."""

from __future__ import annotations

import os
import tokenize
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from softlookup.file_search import Exclusion, why_left_out
from softlookup.lint.discover import Lint, lints
from softlookup.lint.source import Source
from softlookup.lint.suppression import is_silenced
from softlookup.terms import SoftlookupError

#: A file without any of these is not looked at further.
_ABOUT_ATTENTION = ("ttention", "oftmax", "attn", "mask")
_MANY = 100  # files from which on more than one process is worth its start


@dataclass(frozen=True)
class Found:
    """One hit. ``line`` and ``column`` count from one; ``within`` is the function or class around it."""

    lint: str
    line: int
    column: int
    words: str
    fix: str
    within: str = "<module>"


@dataclass(frozen=True)
class LintedFile:
    """What one file held; ``skipped`` says why it could not be read, "" when it was."""

    file: str
    found: tuple[Found, ...] = ()
    silenced: int = 0
    skipped: str = ""


def lint_text(text: str, chosen: Sequence[Lint]) -> tuple[list[Found], int]:
    """Return the hits in a text, in the order of their lines, and how many a comment silences.

    Raises: SyntaxError or ValueError when it is no Python.

    >>> lint_text("import torch\\nscores.masked_fill(mask, 0)", lints())[0][0].lint
    'mask-result-discarded'
    """
    if not any(word in text for word in _ABOUT_ATTENTION):
        return [], 0
    worth = [it for it in chosen if it.worth.search(text)]
    if not worth:
        return [], 0
    source, lines = Source(text), text.splitlines()
    found: list[Found] = []
    silenced = 0
    for lint in worth:
        for hit in lint.find(source):
            first = getattr(hit.node, "lineno", 1)
            numbers = {getattr(source.statement(hit.node), "lineno", first)}
            numbers |= set(range(first, (getattr(hit.node, "end_lineno", None) or first) + 1))
            if is_silenced(lines, numbers, (lint.code, lint.name, lint.rule)):
                silenced += 1
            else:
                column = getattr(hit.node, "col_offset", 0) + 1
                within = source.qualified_name(hit.node)
                found.append(Found(lint.name, first, column, hit.words, hit.fix, within))
    return sorted(set(found), key=lambda it: (it.line, it.column, it.lint)), silenced


def lint_file(file: str, names: frozenset[str]) -> LintedFile:
    """Lint one file with the lints of these names; a file that is no Python is skipped with the reason."""
    try:
        with tokenize.open(file) as opened:  # in the encoding that the file names
            text = opened.read()
        found, silenced = lint_text(text, [it for it in lints() if it.name in names])
    except SyntaxError as problem:
        return LintedFile(file, skipped=f"no Python of this version: {problem.msg} (line {problem.lineno})")
    except (ValueError, OSError, RecursionError) as problem:
        return LintedFile(file, skipped=str(problem) or type(problem).__name__)
    return LintedFile(file, tuple(found), silenced)


def lint_files(
    files: Sequence[str], chosen: Sequence[Lint], say: Callable[[str], None] = lambda file: None
) -> list[LintedFile]:
    """Lint files in their order, on all processors when they are many; ``say`` is told each file."""
    one = partial(lint_file, names=frozenset(it.name for it in chosen))
    processes = min(os.cpu_count() or 1, len(files) // _MANY + 1)
    if processes < 2:
        return [_told(say, one(file)) for file in files]
    with ProcessPoolExecutor(processes) as pool:
        return [_told(say, it) for it in pool.map(one, files, chunksize=16)]


def _told(say: Callable[[str], None], linted: LintedFile) -> LintedFile:
    say(linted.file)
    return linted


def python_files(path: str, exclusion: Exclusion) -> Iterator[str]:
    """Yield a file, or the Python files below a folder without hidden ones, installed packages and tests.

    Raises: SoftlookupError when there is neither.
    """
    if os.path.isfile(path):
        yield path
    elif not os.path.isdir(path):
        raise SoftlookupError(
            f"lint: there is no file or folder {path!r}.",
            expected="Python files, or folders that hold them",
            got=path,
            hint="give the path as seen from the current directory",
        )
    else:
        yield from _below(path, exclusion)


def _below(folder: str, exclusion: Exclusion) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda it: it.name):
        path = os.path.normpath(entry.path)
        is_folder = entry.is_dir(follow_symlinks=False)
        if (is_folder or entry.name.endswith(".py")) and not why_left_out(path, exclusion):
            if is_folder:
                yield from _below(path, exclusion)
            else:
                yield path
