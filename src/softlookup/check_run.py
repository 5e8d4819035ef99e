"""One run of the checker over files and folders: what was checked, passed over, ignored, and what failed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from softlookup.configuration import Configuration
from softlookup.file_checks import Request, check_as_declared
from softlookup.file_search import Search, search, search_file
from softlookup.report.plain_words import count
from softlookup.selection import Selection
from softlookup.terms import FileReport, NoAttentionError, Skipped, SoftlookupError


class Wanted(NamedTuple):
    """One file to check, or one definition in it."""

    file: str
    name: str | None = None
    found: bool = False  # by a search: nobody asked for this very file


@dataclass
class CheckRun:
    """One run; ``if_any``: files are judged as in a folder, and no attention at all is no error."""

    project: Configuration
    selection: Selection
    if_any: bool = False
    reports: list[FileReport] = field(default_factory=list)
    search: Search = field(default_factory=Search)
    ignored: int = 0  # findings that the selection leaves out
    problems: list[str] = field(default_factory=list)  # why something that was asked for was not done
    warnings: list[str] = field(default_factory=list)  # why a file that a search found was not looked into

    def wanted(self, paths: Sequence[str]) -> list[Wanted]:
        """Return what to check for the paths, folders searched."""
        return [it for path in paths for it in self._wanted(path)]

    def check(self, wanted: Sequence[Wanted], request: Request, say: Callable[[str], None]) -> None:
        """Check everything; what cannot be checked does not hide the others. ``say`` is told each file."""
        for file, name, found in wanted:
            say(file)
            try:
                report = check_as_declared(file, name, request, self.project)
            except SoftlookupError as error:
                self._refused(error, found=found)
                continue
            if report.diagnoses or not found:
                self._count(report)
                if not report.diagnoses:
                    self.problems.append(f"check: nothing in {file} could be checked.")
            else:
                self.search += Search(without=1)
        if not (self.reports or self.problems or self.if_any):
            self.problems.append(str(_nothing_to_check(self.search)))

    def passed_over(self) -> str:
        """Return in words what a search passed over, or an empty text."""
        words = []
        if self.search.without:
            words.append(f"{self.search.without} without attention")
        reasons = [reason for _, reason in self.search.left_out]
        words += [f"{reasons.count(reason)} {reason}" for reason in dict.fromkeys(reasons)]
        return f"Passed over: {', '.join(words)} (name a file to check it)" if words else ""

    def _refused(self, error: SoftlookupError, *, found: bool) -> None:
        """Keep why a file was not checked; of what a search found, only what was not looked into."""
        if not found or not isinstance(error, NoAttentionError):
            self.problems.append(str(error))
        elif error.unseen:
            self.warnings.append(str(error))
        else:
            self.search += Search(without=1)

    def _count(self, report: FileReport) -> None:
        """Keep of a report what the selection lets count."""
        diagnoses, skipped = [], []
        for before in report.diagnoses:
            notes = tuple(it for it in before.notes if self.selection.counts(it.code, it.name))
            after = replace(self.selection.of(before), notes=notes)
            self.ignored += len(before.findings) - len(after.findings)
            if after.clean and before.verdict == "not-callable":  # ignoring that does not make it right
                skipped.append(Skipped(after.name, after.line, "could not be called, and SL001 is ignored"))
            else:
                diagnoses.append(after)
        self.reports.append(replace(report, diagnoses=tuple(diagnoses), skipped=(*report.skipped, *skipped)))

    def _wanted(self, path: str) -> list[Wanted]:
        if os.path.isdir(path):
            found = search(path, self.project.exclusion)
        elif self.if_any and os.path.isfile(path):
            found = search_file(path, self.project.exclusion)
        else:
            return [Wanted(*split_name(path))]
        self.search += found
        return [Wanted(file, found=True) for file in found.files]


def split_name(path: str) -> tuple[str, str | None]:
    """Split FILE:NAME. A drive letter is no file, and a path that exists is taken whole.

    >>> split_name("model.py:Block.attend"), split_name("model.py")
    (('model.py', 'Block.attend'), ('model.py', None))
    """
    file, colon, name = path.rpartition(":")
    if not colon or Path(path).exists() or not all(part.isidentifier() for part in name.split(".")):
        return path, None
    return file, name


def _nothing_to_check(search: Search) -> SoftlookupError:
    left_out = [f"{path} ({reason})" for path, reason in search.left_out[:6]]
    return SoftlookupError(
        "check: no attention was found.",
        expected="a file with a function or class that takes queries, keys and values",
        got=", ".join([f"{count(search.without, 'file')} without", *left_out]),
        hint="name the file: softlookup check FILE, or allow this with --if-any",
    )
