"""Remember what was made from an object, for as long as the object is the same one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made")
_MOST = 256


class ByIdentity:
    """What was made from each object: tensors have no equality that could serve as a key."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[Any, Any]] = {}

    def get(self, source: object, make: Callable[[], Made], *more: str) -> Made:
        """Return what ``make`` returned for this very object (and these words), making it once."""
        key = (id(source), *more)
        if key not in self._known:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[key] = (source, make())  # keeps the source, so that its id stays its own
        made: Made = self._known[key][1]
        return made
