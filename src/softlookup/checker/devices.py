"""Where a target can be judged: the devices that torch sees on this machine."""

from __future__ import annotations

import torch

from softlookup.terms import SoftlookupError


def devices_seen() -> list[str]:
    """Return the devices that tensors can be computed on here, e.g. ["cpu", "cuda:0"].

    >>> devices_seen()[0]
    'cpu'
    """
    found = ["cpu"]
    if torch.cuda.is_available():
        found += [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append("mps")
    if torch.xpu.is_available():
        found += [f"xpu:{number}" for number in range(torch.xpu.device_count())]
    return found


def require_device(name: str) -> None:
    """Make sure that tensors can be computed on a device.

    name: as torch spells it, e.g. "cuda", "cuda:1", "mps"

    Raises: SoftlookupError when torch does not see such a device here.
    """
    seen = devices_seen()
    if name in seen or name in {device.partition(":")[0] for device in seen}:
        return
    raise SoftlookupError(
        "check: the device cannot be used.",
        expected="a device that torch sees on this machine and that computes with numbers",
        got=repr(name),
        hint=f"one of {', '.join(seen)}",
    )
