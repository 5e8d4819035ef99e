"""Memory that is used again from call to call: fresh pages cost more than what is computed in them."""

from __future__ import annotations

import threading

import torch
from torch import Tensor

_kept = threading.local()
_MOST = 1 << 22  # numbers; larger tensors are not kept


def scratch(name: str, shape: torch.Size | tuple[int, ...], like: Tensor) -> Tensor:
    """Return an uninitialised tensor of this shape, whose memory is that of the last one of this name.

    name: who wants it, so that two that are needed at once do not share
    like: gives dtype and device
    """
    numbers = torch.Size(shape).numel()
    if like.device.type != "cpu" or numbers > _MOST:
        return like.new_empty(shape)
    rooms: dict[tuple[str, torch.dtype], Tensor] = vars(_kept).setdefault("rooms", {})
    room = rooms.get((name, like.dtype))
    if room is None or room.numel() < numbers:
        room = rooms[name, like.dtype] = torch.empty(numbers, dtype=like.dtype)
    return room[:numbers].view(shape)
