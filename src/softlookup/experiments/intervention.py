"""What an intervention is: a step of attention done otherwise, in some layers, heads, queries and samples.

Attention is the steps of ``softlookup.attention``. Any object is an intervention that has ``layer``, and
``head``, ``query`` and ``sample`` where not all are meant, and a method named after the step it replaces:

    visible(at, allowed)    who may look at whom: bool [S, h, n, T_k] -> the same
    score(at, scores)       what the softmax will be given: [S, h, n, T_k] -> the same
    normalize(at, weights)  the weights that it made: [S, h, n, T_k] -> the same
    mix(at, outputs)        what the heads found, before they merge: [S, h, n, d_v] -> the same

The axes are the samples, heads and queries that it asked for, and no others: see ``At``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from softlookup.live.record import Call
from softlookup.terms import SoftlookupError

#: The steps that can be replaced, in the order in which they run.
STEPS = ("visible", "score", "normalize", "mix")
#: One position, some, or all.
Which: TypeAlias = int | Sequence[int] | None


@dataclass(frozen=True, eq=False)
class At:
    """Where a step is: these samples, heads and queries of one call, all with all.

    samples, heads, queries: int64 [S], [h], [n]
    allowed: bool [S, h, n, T_k] who may look at whom, once that is known: in ``score`` and ``normalize``
    words: the intervention, for messages
    """

    call: Call
    samples: Tensor
    heads: Tensor
    queries: Tensor
    words: str = ""
    allowed: Tensor | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """S, h, n."""
        return len(self.samples), len(self.heads), len(self.queries)

    def keys(self, positions: Sequence[int]) -> list[int]:
        """Return positions of keys, those that are negative counted from the last key.

        Raises: SoftlookupError for a position that the call does not have.
        """
        return resolved("key", positions, self.call.k_len, self)

    def seeing(self, allowed: Tensor) -> At:
        """Return the same place, with what is seen there."""
        return replace(self, allowed=allowed)

    def index(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return what picks the rows out of a tensor [B, H, T_q, ...]."""
        return self.samples[:, None, None], self.heads[:, None], self.queries


def place_of(intervention: Any, call: Call, device: torch.device) -> At:
    """Return where an intervention acts in a call.

    Raises: SoftlookupError for a sample, head or query that the call does not have.
    """
    nowhere = torch.empty(0, dtype=torch.int64)
    at = At(call, nowhere, nowhere, nowhere, words=repr(intervention))
    found = {}
    for name, size in (("sample", call.batch_size), ("head", call.num_heads), ("query", call.q_len)):
        asked = positions(name, getattr(intervention, name, None))
        numbers = list(range(size)) if asked is None else resolved(name, asked, size, at)
        found[name] = torch.tensor(numbers, dtype=torch.int64, device=device)
    return replace(at, samples=found["sample"], heads=found["head"], queries=found["query"])


def positions(name: str, value: Any) -> tuple[int, ...] | None:
    """Return one whole number, or several, as a tuple; None stays None, and means all.

    Raises: SoftlookupError for anything else, no number, and one that is given twice.
    """
    if value is None:
        return None
    numbers = value.tolist() if isinstance(value, Tensor) else value
    numbers = (numbers,) if isinstance(numbers, int) else numbers
    if (
        not isinstance(numbers, (list, tuple, range))
        or not numbers
        or any(isinstance(it, bool) or not isinstance(it, int) for it in numbers)
        or len(set(numbers)) != len(numbers)
    ):
        raise SoftlookupError(
            f"experiments: `{name}` cannot be used.",
            expected="a whole number, several different ones, or None for all",
            got=f"{value!r}",
        )
    return tuple(numbers)


def resolved(name: str, numbers: Sequence[int], size: int, at: At) -> list[int]:
    """Return positions below ``size``; negative ones are counted from the end.

    Raises: SoftlookupError for a position that there is not.
    """
    for number in numbers:
        if not -size <= number < size:
            call = at.call
            raise SoftlookupError(
                f"{at.words}: {call.layer or 'the model'} has no {name} {number}.",
                expected=f"0 to {size - 1}, or -{size} to -1 from the end"
                if size
                else f"a call with a {name}",
                got=str(number),
                sizes={"B": call.batch_size, "H": call.num_heads, "T_q": call.q_len, "T_k": call.k_len},
            )
    return [number % size for number in numbers]


@dataclass(frozen=True, eq=False, repr=False)
class Intervention:
    """What the interventions of this package share.

    layer: patterns of paths;  head, query, sample: which ones; None: all
    words: the call in Python that makes it
    """

    layer: str | Sequence[str]
    head: Which
    query: Which
    sample: Which
    words: str

    def __post_init__(self) -> None:
        for name in ("head", "query", "sample"):
            positions(name, getattr(self, name))
        list(patterns_of(self))

    def __repr__(self) -> str:
        return self.words

    def prepared(self, model: nn.Module) -> Intervention:
        """Return it as it runs in a model; what it has to know beforehand is found out here."""
        return self


def patterns_of(intervention: Any) -> Iterator[str]:
    """Yield the patterns of the layers that are meant.

    Raises: SoftlookupError where they are no text.
    """
    layer = getattr(intervention, "layer", None)
    patterns = [layer] if isinstance(layer, str) else layer
    if (
        not isinstance(patterns, (list, tuple))
        or not all(isinstance(it, str) for it in patterns)
        or not patterns
    ):
        raise SoftlookupError(
            "experiments: `layer` cannot be used.",
            expected='the path of an attention layer, or a pattern, e.g. "model.layers.*.self_attn"',
            got=f"{layer!r}",
        )
    yield from patterns


def as_call(name: str, *values: Any, **named: Any) -> str:
    """Return a call in Python; arguments that are None are left out.

    >>> as_call("remove_source", 4, layer="*", head=None)
    "remove_source(4, layer='*')"
    """
    given = [repr(it) for it in values] + [f"{key}={it!r}" for key, it in named.items() if it is not None]
    return f"{name}({', '.join(given)})"
