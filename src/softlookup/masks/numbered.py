"""Every mask has a number of its own, by which it is found again without being handed along.

A compiled graph can hold a number, but no object of ours; a memory of plans can be asked by a number at once,
where comparing two masks may mean comparing two tensors.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from softlookup.terms import SoftlookupError

if TYPE_CHECKING:
    from typing_extensions import Self

_NUMBERS = count(1)
_KNOWN: WeakValueDictionary[int, Any] = WeakValueDictionary()


class Numbered:
    """Gives each object a number when it is made; a copy, also one that was pickled, gets another."""

    number: int

    def __new__(cls, *arguments: Any, **named: Any) -> Self:
        """Make the object and give it its number."""
        made = super().__new__(cls)
        object.__setattr__(made, "number", next(_NUMBERS))
        _KNOWN[made.number] = made
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "number"}


def with_number(number: int) -> Any:
    """Return the object with this number.

    Raises: SoftlookupError when it is gone.
    """
    found = _KNOWN.get(number)
    if found is None:
        raise SoftlookupError(
            "masks: the mask that was used when this function was compiled is gone.",
            expected="a mask that lives as long as the compiled function",
            got=f"mask number {number}",
            hint="keep the mask on the module, and build it outside of the compiled function",
        )
    return found
