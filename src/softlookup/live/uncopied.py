"""Hooks that stay with the model that was watched: its copies and pickles get ones that do nothing."""

from __future__ import annotations

from typing import Any, TypeVar

Hook = TypeVar("Hook", bound="Uncopied")


class Uncopied:
    """A hook that is made without arguments where its model is copied or pickled, and then does nothing."""

    def __deepcopy__(self: Hook, memo: Any) -> Hook:
        return type(self)()

    def __reduce__(self: Hook) -> tuple[type[Hook], tuple[()]]:
        return type(self), ()
