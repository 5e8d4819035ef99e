"""The files of a trace on disk: their names, a line that guards itself, and what of a file is whole.

A trace is a folder of parts. A part is two files that only grow:

    tensors-000000.bin    one safetensors blob after the other, one a step
    index-000000.jsonl    one line a step: plain JSON, with offset, length and CRC-32 of its blob

The blob of a step is written before its line, so a line that is whole has a blob that is whole, wherever the
process was killed. Every line ends with the CRC-32 of itself. The first line of a part says whose it is.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

VERSION = 1
_CHECKED = re.compile(rb'(\{.*), "crc32": "([0-9a-f]{8})"\}', re.S)


def index_file(folder: Path, part: int) -> Path:
    """Return the file of the lines of a part."""
    return folder / f"index-{part:06}.jsonl"


def tensors_file(folder: Path, part: int) -> Path:
    """Return the file of the blobs of a part."""
    return folder / f"tensors-{part:06}.bin"


def parts_of(folder: Path) -> list[int]:
    """Return the numbers of the parts in a folder, oldest first."""
    return sorted(int(path.stem.removeprefix("index-")) for path in folder.glob("index-*.jsonl"))


def traces_in(folder: Path) -> list[Path]:
    """Return the folder, if it holds a trace, else those in it that do: one a model of a watched script."""
    if parts_of(folder):
        return [folder]
    return sorted(it for it in folder.iterdir() if it.is_dir() and parts_of(it)) if folder.is_dir() else []


def sealed(values: dict[str, Any]) -> bytes:
    """Return values as one line of JSON that ends with the CRC-32 of what stands before it.

    >>> line = sealed({"entry": 3}).rstrip()
    >>> unsealed(line), unsealed(line.replace(b"3", b"4", 1))
    ({'entry': 3}, None)
    """
    text = json.dumps(values, allow_nan=False).encode()
    return text[:-1] + f', "crc32": "{crc32(text):08x}"}}\n'.encode()


def unsealed(line: bytes) -> dict[str, Any] | None:
    """Return the values of a line without its end, or None where it is not as it was written."""
    checked = _CHECKED.fullmatch(line)
    if checked is None:
        return None
    text = checked[1] + b"}"
    if f"{crc32(text):08x}".encode() != checked[2]:
        return None
    values: dict[str, Any] = json.loads(text)
    return values


@dataclass
class Part:
    """What is whole of a part.

    header: its first line; None where that is not whole
    entries: the lines of whole steps, in order
    bad: for each line that is not whole, the number of whole steps before it and what is wrong
    index_end, tensors_end: where the last whole line and its blob end in the two files, in bytes
    """

    header: dict[str, Any] | None = None
    entries: list[dict[str, Any]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    index_end: int = 0
    tensors_end: int = 0

    @property
    def damaged(self) -> list[str]:
        """What is wrong before the last whole step: no end of a process explains it."""
        return [words for before, words in self.bad if before < len(self.entries)]

    @property
    def cut_off(self) -> list[str]:
        """What is wrong after the last whole step."""
        return [words for before, words in self.bad if before == len(self.entries)]

    def take(self, line: bytes, tensors: BinaryIO) -> str:
        """Add a line where it and its blob are whole; return what is wrong, or ""."""
        values = unsealed(line)
        if values is None:
            return "not as it was written"
        if "softlookup_trace" in values:
            self.header = values
            return ""
        blob = read_blob(tensors, values)
        if len(blob) < values["length"]:
            return "its tensors are not all there"
        if crc32(blob) != values["tensors_crc32"]:
            return "its tensors are not as they were written"
        self.entries.append(values)
        self.tensors_end = values["offset"] + values["length"]
        return ""


def scan(folder: Path, part: int) -> Part:
    """Return what is whole of a part; every line and every blob is held against its CRC-32."""
    index, found, end = index_file(folder, part), Part(), 0
    *lines, rest = index.read_bytes().split(b"\n")
    with tensors_file(folder, part).open("rb") as tensors:
        for number, line in enumerate(lines, 1):
            end += len(line) + 1
            wrong = found.take(line, tensors)
            if wrong:
                found.bad.append((len(found.entries), f"{index.name}, line {number}: {wrong}"))
            else:
                found.index_end = end
    if rest:
        found.bad.append((len(found.entries), f"{index.name}, line {len(lines) + 1}: it has no end"))
    return found


def read_blob(tensors: BinaryIO, entry: dict[str, Any]) -> bytes:
    """Return the blob of an entry, or what is there of it."""
    tensors.seek(entry["offset"])
    return tensors.read(entry["length"])
