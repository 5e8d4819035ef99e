"""What a guarded child sees of our environment: the way to its libraries, and a home of its own."""

from __future__ import annotations

import os
from pathlib import Path

from softlookup.checker.ending import MARK

_ALLOWED = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_CHOOSE_DEVICES = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")


def environment_in(folder: Path, device: str) -> dict[str, str]:
    """Return the variables of a child that works in this folder.

    device: where it may run; "": the CPU, and no accelerator is seen
    """
    allowed = {name: os.environ[name] for name in _ALLOWED if name in os.environ}
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    # No accelerator: the probes are tiny, and code that asks for one then takes the path that we check.
    own = {"HOME": str(folder), "TMPDIR": str(folder), MARK: folder.name}
    chosen = {name: os.environ[name] for name in _CHOOSE_DEVICES if name in os.environ}
    return {**allowed, **threads, **own, **(chosen if device else {"CUDA_VISIBLE_DEVICES": ""})}
