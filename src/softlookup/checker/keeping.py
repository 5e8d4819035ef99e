"""Give a module back as it was: flags, values and attributes, also those that a call changes on its way."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

_CONTAINERS = (dict, list, set, OrderedDict)  # hooks lie in ordered ones


class Kept:
    """What a module was when this was made.

    parameters: also the numbers in its parameters, which need as much memory again
    """

    def __init__(self, module: nn.Module, *, parameters: bool = True) -> None:
        self._parts = list(module.modules())
        self._attributes = [(vars(part), vars(part).copy()) for part in self._parts]
        # A cache that grows in place is given back short, and stays the same object.
        held = [value for part in self._parts for value in vars(part).values()]
        self._containers = [(value, value.copy()) for value in held if type(value) in _CONTAINERS]
        of_module = (*module.parameters(), *module.buffers()) if parameters else module.buffers()
        tensors = [one for one in of_module if not is_lazy(one)]
        tensors += [value for value in held if isinstance(value, Tensor)]  # caches that are no buffers
        self._values = [(tensor, tensor.detach().clone()) for tensor in tensors]
        self._versions = [_version(tensor) for tensor in tensors]

    def restore(self, *, thoroughly: bool = False) -> None:
        """Undo what was changed since; values only where torch counted a change, unless ``thoroughly``."""
        for container, kept in [*self._attributes, *self._containers]:
            _refill(container, kept)
        for place, (tensor, value) in enumerate(self._values):
            changed = thoroughly or _version(tensor) != self._versions[place]
            if changed and not torch.equal(tensor, value):
                with torch.no_grad():
                    tensor.data.copy_(value)
            self._versions[place] = _version(tensor)


def _refill(container: Any, kept: Any) -> None:
    if container is kept:
        return
    container.clear()
    container.extend(kept) if isinstance(container, list) else container.update(kept)


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
