"""A PNG file out of lines of pixels."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence


def png_bytes(lines: Sequence[bytes], words: str, palette: bytes | None = None) -> bytes:
    """Return the bytes of the file.

    lines: of equal length; three bytes a pixel, or one where there is a palette
    words: its description;  palette: three bytes a colour

    >>> png_bytes([bytes([255, 0, 0])], "a red pixel")[:4]
    b'\\x89PNG'
    """
    width, kind = (len(lines[0]) // 3, 2) if palette is None else (len(lines[0]), 3)
    chunks = [(b"IHDR", struct.pack(">IIBBBBB", width, len(lines), 8, kind, 0, 0, 0))]  # 8 bits
    if palette is not None:
        chunks.append((b"PLTE", palette))
    chunks += [
        (b"tEXt", b"Description\0" + words.encode("latin-1", "replace")),
        (b"IDAT", zlib.compress(b"".join(b"\0" + line for line in lines), 9)),  # 0: no filter
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
