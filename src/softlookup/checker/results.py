"""The tensors in what a call returned, and where each of them sits."""

from __future__ import annotations

from torch import Tensor

from softlookup.checker.calls import Value


def leaves(result: Value) -> list[Tensor]:
    """Return the tensors of a nested result, in order."""
    if isinstance(result, Tensor):
        return [result]
    if isinstance(result, dict):
        return [leaf for value in result.values() for leaf in leaves(value)]
    if isinstance(result, list | tuple):
        return [leaf for value in result for leaf in leaves(value)]
    return []


def path_of(result: Value, wanted: Tensor, path: tuple[int | str, ...] = ()) -> tuple[int | str, ...] | None:
    """Return where a tensor sits in a nested result."""
    if result is wanted:
        return path
    items = (
        result.items()
        if isinstance(result, dict)
        else enumerate(result)
        if isinstance(result, list | tuple)
        else ()
    )
    for key, value in items:
        found = path_of(value, wanted, (*path, key))
        if found is not None:
            return found
    return None
