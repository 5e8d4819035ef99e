"""torch's fast paths from tokens to tokens, off for a while: inside them, no step can be replaced."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_lock = threading.Lock()
_off: list[bool] = []  # one entry a block that keeps them off: what was set before it


@contextmanager
def without_fast_paths() -> Iterator[None]:
    """Let nn.MultiheadAttention and nn.TransformerEncoderLayer take the plain way while the block runs.

    The last of several blocks to end restores what was set before the first, in whichever threads they are.
    """
    with _lock:
        _off.append(torch.backends.mha.get_fastpath_enabled())
        torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        with _lock:
            if len(_off) == 1:
                torch.backends.mha.set_fastpath_enabled(_off[0])
            _off.pop()
