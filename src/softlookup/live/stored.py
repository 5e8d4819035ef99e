"""A trace read back from its folder, after its end or after a crash."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from softlookup.live.record import Alarm, Record
from softlookup.live.step_encoding import decode_step
from softlookup.live.trace_files import VERSION, Part, parts_of, read_blob, scan, tensors_file, traces_in
from softlookup.terms import SoftlookupError

_TRIES = 3  # to read while a writer deletes
_SHOWN = 5  # of what is damaged, in a message


@dataclass(frozen=True, eq=False)
class StoredTrace:
    """What a folder holds of a watch.

    records, alarms: of all whole steps, in the order in which they were written
    steps: how many steps these are;  older: how many were deleted before them to stay within max_bytes
    meta: what the writer noted: versions, and what it was given
    cut_off: what lies behind the last whole step, as a crash leaves it; empty where nothing does
    damaged: what is wrong before it, which no crash explains; empty where nothing is
    """

    records: tuple[Record, ...]
    alarms: tuple[Alarm, ...]
    steps: int
    older: int
    meta: dict[str, Any]
    cut_off: tuple[str, ...]
    damaged: tuple[str, ...]


def read_trace(path: str | Path, *, skip_damaged: bool = False) -> StoredTrace:
    """Return what ``TraceWriter`` wrote into a folder; it may still be writing.

    path: the folder, or one in which it is the only trace, as ``softlookup watch --save-to`` makes it
    skip_damaged: read the steps that are whole where others are damaged, and say which in ``damaged``

    Raises: SoftlookupError when the folder holds no trace, or one of another version; when steps in the
    middle are damaged or missing and skip_damaged is False. A last step that was not finished is no damage.

    >>> import tempfile
    >>> from softlookup.live.storing import TraceWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TraceWriter(folder, meta={"model": "toy"}) as trace:
    ...         trace.append([])
    ...     read_trace(folder).steps
    1
    """
    folder = _only_trace(Path(path))
    trace = _read_parts(folder)
    if trace.damaged and not skip_damaged:
        more = len(trace.damaged) - _SHOWN
        raise SoftlookupError(
            f"read_trace: the trace in {folder} is damaged.",
            expected="every step before the last one as it was written",
            got="; ".join(trace.damaged[:_SHOWN]) + (f"; and {more} more" if more > 0 else ""),
            hint="read_trace(..., skip_damaged=True) returns the steps that are whole",
        )
    return trace.read()


def _only_trace(folder: Path) -> Path:
    found = traces_in(folder)
    if len(found) > 1:
        raise SoftlookupError(
            f"read_trace: {folder} holds several traces.",
            expected="the folder of one of them",
            got=", ".join(it.name for it in found),
            hint=f"{found[0]}",
        )
    if not found:
        raise SoftlookupError(
            f"read_trace: {folder} holds no trace.",
            expected="a folder with index-000000.jsonl in it, as TraceWriter makes it",
            got="a folder without one" if folder.is_dir() else "no such folder",
        )
    return found[0]


def _read_parts(folder: Path) -> _Reading:
    """Read all parts; once more where the writer has deleted an old one meanwhile."""
    for _ in range(_TRIES):
        trace = _Reading(folder)
        try:
            for number in parts_of(folder):
                trace.add(number, scan(folder, number))
            return trace
        except FileNotFoundError as error:
            missing = error.filename
    raise SoftlookupError(
        f"read_trace: the trace in {folder} is damaged.",
        expected="two files for each part",
        got=f"no {missing}",
    )


class _Reading:
    """The parts of a trace, one after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.meta: dict[str, Any] = {}
        self.older: int | None = None
        self.steps, self.expected = 0, 0
        self.records: list[Record] = []
        self.alarms: list[Alarm] = []
        self.cut_off: list[str] = []
        self.damaged: list[str] = []

    def add(self, number: int, part: Part) -> None:
        if part.header is not None:
            _refuse_other_versions(self.folder, part.header)
            self.meta = part.header["meta"]
            self._expect(part.header["first_entry"])
        self.damaged += part.damaged
        self.cut_off += part.cut_off
        with tensors_file(self.folder, number).open("rb") as tensors:
            for entry in part.entries:
                self._expect(entry["entry"])
                self.expected += 1
                self._decode(entry, read_blob(tensors, entry))

    def _expect(self, entry: int) -> None:
        """Note the steps that are missing before the next one."""
        if self.older is None:
            self.older = self.expected = entry
        if entry != self.expected:
            self.damaged.append(f"steps {self.expected} to {entry - 1} of the trace are missing")
            self.expected = entry

    def _decode(self, entry: dict[str, Any], blob: bytes) -> None:
        try:
            records, alarms = decode_step(entry, blob)
        except (KeyError, TypeError, ValueError, SafetensorError) as error:  # whole, but not as we write it
            self.damaged.append(f"step {entry['entry']} of the trace cannot be read: {error}")
            return
        self.steps += 1
        self.records += records
        self.alarms += alarms

    def read(self) -> StoredTrace:
        return StoredTrace(
            tuple(self.records),
            tuple(self.alarms),
            self.steps,
            self.older or 0,
            self.meta,
            tuple(self.cut_off),
            tuple(self.damaged),
        )


def _refuse_other_versions(folder: Path, header: dict[str, Any]) -> None:
    if header["softlookup_trace"] != VERSION:
        raise SoftlookupError(
            f"read_trace: the trace in {folder} is of another version.",
            expected=f"version {VERSION}",
            got=f"version {header['softlookup_trace']}",
            hint="read it with the softlookup that wrote it",
        )
