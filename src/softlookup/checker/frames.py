"""One message between a guarded child and us: sizes, a JSON header, and a block of safetensors bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

SIZES = struct.Struct("<QQ")  # bytes of the JSON header, bytes of the tensor block
LARGEST_FRAME_BYTES = 2048 * 2**20


def pack_frame(header: dict[str, Any], tensors: bytes = b"") -> bytes:
    """Return the bytes of one message."""
    text = json.dumps(header).encode()
    return SIZES.pack(len(text), len(tensors)) + text + tensors
