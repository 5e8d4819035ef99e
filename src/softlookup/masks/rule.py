"""One visibility rule as a mask: the name of its file and its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from softlookup.masks.algebra import Mask, label_of, same_value, shape_of
from softlookup.masks.discover import RuleFile, rule_file
from softlookup.masks.questions import Point


@dataclass(frozen=True, eq=False, repr=False)
class Rule(Mask):
    """One visibility rule: the name of its file, its parameters, and how its builder spells it."""

    name: str
    items: tuple[tuple[str, Any], ...] = ()
    spelled: str = ""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the rule by name, complete."""
        return dict(self.items)

    @property
    def _file(self) -> RuleFile:
        return rule_file(self.name)

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the answer depends on."""
        return frozenset(
            {"T_k"} | ({"B"} if self.sizes["B"] else set()) | (set() if self._file.keys_only else {"T_q"})
        )

    @property
    def sizes(self) -> dict[str, int | None]:
        """The sizes that are fixed."""
        return self._file.sizes(self.parameters)

    def leaves(self) -> Iterator[Mask]:
        """Yield the leaves of the tree."""
        yield self

    def _on(self, i: Tensor, j: Tensor, q_len: int, k_len: int) -> Tensor:
        return self._file.on(self.parameters, i, j, q_len, k_len)

    def _always_sees(self, q_len: int, k_len: int) -> frozenset[str]:
        return self._file.always_sees(q_len=q_len, k_len=k_len, **self.parameters)

    def _least_k_len(self) -> int:
        numbers = [self.parameters[name] for name in self._file.per_sample]
        return max((max(number) if isinstance(number, tuple) else number for number in numbers), default=0)

    def _check_leaf(self, q_len: int, k_len: int) -> None:
        if self._file.check_lengths:
            self._file.check_lengths(q_len=q_len, k_len=k_len, **self.parameters)

    def _tensors(self) -> list[Tensor]:
        return [value for _, value in self.items if isinstance(value, Tensor)]

    def _why_hidden(self, point: Point) -> str:
        return label_of(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rule) or self.name != other.name:
            return False
        return all(same_value(a, b) for (_, a), (_, b) in zip(self.items, other.items, strict=True))

    def __hash__(self) -> int:
        return hash((self.name, *(tuple(v.shape) if isinstance(v, Tensor) else v for _, v in self.items)))

    def __repr__(self) -> str:
        return self.spelled


def visibility(name: str, /, **parameters: Any) -> Mask:
    """Return the mask of any rule file of ``softlookup.masks`` by its name, also of one that has no builder.

    Raises: SoftlookupError when there is no such rule, or its parameters are not accepted.

    >>> visibility("window_counts_keys", window=2).explain(3, 1)
    "key 1 is hidden from query 3: visibility('window_counts_keys', window=2)"
    """
    return spelled_rule(name, _call("visibility", repr(name), **parameters), **parameters)


def spelled_rule(name: str, spelled: str, /, **parameters: Any) -> Rule:
    """Return a rule that prints as ``spelled``, which is how its builder is called."""
    return Rule(name, rule_file(name).complete(parameters), spelled)


def _call(function: str, /, *arguments: str, **named: Any) -> str:
    shown = (f"{name}={shape_of(v) if isinstance(v, Tensor) else repr(v)}" for name, v in named.items())
    return f"{function}({', '.join([*arguments, *shown])})"
