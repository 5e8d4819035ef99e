"""A trace written to disk step by step, so that it can be read after the process was killed at any moment."""

from __future__ import annotations

import platform
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO
from zlib import crc32

import torch

import softlookup
from softlookup.live.record import Alarm, Record
from softlookup.live.step_encoding import encode_step
from softlookup.live.trace_files import VERSION, index_file, parts_of, scan, sealed, tensors_file
from softlookup.terms import SoftlookupError

_PARTS = 4  # into so many parts the bytes that are allowed are cut; the oldest part goes as a whole


class TraceWriter:
    """Append steps to a trace in a folder.

    path: the folder; it is made where it is not there
    meta: JSON values that are kept with the trace, e.g. {"model": "LlamaForCausalLM"}
    resume: go on with the trace that lies there; a last step that was not finished is cut off
    max_bytes: what the trace may take on the disk. Beyond it the oldest quarter is deleted, and reading says
        how many steps that were. The last step always stays.

    Each step is handed to the operating system before ``append`` returns: it survives SIGKILL and a crash of
    the process. It is not forced onto the disk: a power cut can cost more than the last step, and reading
    says so. A disk that is full stops the trace with a warning, never the training.

    Raises: SoftlookupError when a trace lies there already and resume is False; when another process writes
    there; when meta is not JSON.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, TraceWriter(folder + "/trace") as trace:
    ...     trace.append([])
    """

    def __init__(
        self,
        path: str | Path,
        *,
        meta: Mapping[str, Any] | None = None,
        resume: bool = False,
        max_bytes: int = 1 << 30,
    ) -> None:
        self.folder = Path(path)
        self.stopped = ""  # why nothing is written any more
        self._meta = {"softlookup": softlookup.__version__, "torch": torch.__version__}
        self._meta |= {"python": platform.python_version(), **(meta or {})}
        self._max_bytes = max_bytes
        self._entry = 0  # steps before the next one
        self._steps_in_part = 0
        self._open: list[BinaryIO] = []  # tensors and index of the part
        self._older: dict[int, int] = {}  # bytes of each part before it
        self._check_meta()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = _locked(self.folder)
        try:
            self._begin(resume)
        except BaseException:
            self.close()
            raise

    def append(self, records: Sequence[Record], alarms: Sequence[Alarm] = ()) -> None:
        """Write a step: its tensors, and then the line that tells where they lie.

        Raises: SoftlookupError after ``close``.
        """
        if self._lock.closed:
            raise SoftlookupError(
                "TraceWriter.append: the trace is closed.",
                expected="a trace that is open",
                got="a closed one",
            )
        if self.stopped:
            return
        entry, blob = encode_step(records, alarms)
        try:
            self._write(entry, blob)
        except OSError as error:
            self._stop(error)

    def close(self) -> None:
        """Close the files; a second time does nothing."""
        for file in (*self._open, self._lock):
            file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_meta(self) -> None:
        try:
            sealed(self._meta)
        except (TypeError, ValueError) as error:
            raise SoftlookupError(
                "TraceWriter: meta cannot be written.", expected="JSON values", got=str(error)
            ) from error

    def _begin(self, resume: bool) -> None:
        """Open the first part, or one after those that lie there."""
        parts = parts_of(self.folder)
        if parts and not resume:
            raise SoftlookupError(
                f"TraceWriter: {self.folder} holds a trace already.",
                expected="a new or an empty folder",
                got=f"{index_file(self.folder, parts[-1]).name} in it",
                hint="resume=True goes on with it; else take another folder",
            )
        if parts:
            self._entry = _cut_off_and_count(self.folder, parts)
            self._older = {part: _size(self.folder, part) for part in parts}
        self._open_part(parts[-1] + 1 if parts else 0)

    def _open_part(self, part: int) -> None:
        """Begin a part. Its blobs come first: a line never stands without the file that it speaks of."""
        for file in self._open:
            file.close()
        files = tensors_file(self.folder, part), index_file(self.folder, part)
        self._open = [file.open("wb") for file in files]
        self._part, self._ends = part, [0, 0]
        header = {"softlookup_trace": VERSION, "first_entry": self._entry, "meta": self._meta}
        self._add(b"", sealed(header))

    def _write(self, entry: dict[str, Any], blob: bytes) -> None:
        written = blob, self._line(entry, blob)
        new = sum(map(len, written))
        if self._steps_in_part and sum(self._ends) + new > self._max_bytes // _PARTS:
            self._older[self._part] = sum(self._ends)
            self._steps_in_part = 0
            self._open_part(self._part + 1)
            written = blob, self._line(entry, blob)  # offsets begin at 0 again
        self._make_room(new)
        self._add(*written)
        self._entry += 1
        self._steps_in_part += 1

    def _line(self, entry: dict[str, Any], blob: bytes) -> bytes:
        place = {"offset": self._ends[0], "length": len(blob), "tensors_crc32": crc32(blob)}
        return sealed({"entry": self._entry, **place, **entry})

    def _add(self, blob: bytes, line: bytes) -> None:
        """Write a blob and then its line; what was written in part is taken back."""
        written = blob, line
        try:
            for file, new in zip(self._open, written, strict=True):
                file.write(new)
                file.flush()
        except BaseException:
            for file, end in zip(self._open, self._ends, strict=True):
                with suppress(OSError):
                    file.truncate(end)
                    file.seek(end)
            raise
        self._ends = [end + len(new) for end, new in zip(self._ends, written, strict=True)]

    def _make_room(self, new: int) -> None:
        """Delete the oldest parts until the new bytes find room, or only this part is left."""
        while self._older and sum(self._older.values()) + sum(self._ends) + new > self._max_bytes:
            oldest = min(self._older)
            index_file(self.folder, oldest).unlink()  # first: what has no lines is no part of the trace
            tensors_file(self.folder, oldest).unlink()
            del self._older[oldest]

    def _stop(self, error: OSError) -> None:
        self.stopped = f"step {self._entry} of the trace could not be written: {error}"
        warnings.warn(f"softlookup: {self.stopped}; the trace ends there.", RuntimeWarning, stacklevel=3)


def _size(folder: Path, part: int) -> int:
    return sum(file(folder, part).stat().st_size for file in (index_file, tensors_file))


def _cut_off_and_count(folder: Path, parts: list[int]) -> int:
    """Cut what was not finished off the last part, and return how many steps were written so far."""
    for part in reversed(parts):
        found = scan(folder, part)
        if part == parts[-1]:
            _shorten(index_file(folder, part), found.index_end)
            _shorten(tensors_file(folder, part), found.tensors_end)
        if found.entries:
            return int(found.entries[-1]["entry"]) + 1
        if found.header is not None:
            return int(found.header["first_entry"])
    return 0


def _shorten(file: Path, length: int) -> None:
    if file.stat().st_size > length:
        with file.open("r+b") as opened:
            opened.truncate(length)


def _locked(folder: Path) -> BinaryIO:
    """Return a file that is locked as long as it is open; the lock of a process that was killed is gone.

    Raises: SoftlookupError when another process holds it.
    """
    lock = (folder / "writing.lock").open("wb")
    try:
        import fcntl
    except ImportError:  # not on Windows, where two writers are not noticed
        return lock
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise SoftlookupError(
            f"TraceWriter: another process or trace writes into {folder}.",
            expected="one writer for each folder",
            got="a second one",
            hint="give each rank a folder of its own",
        ) from None
    return lock
