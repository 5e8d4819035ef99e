"""ALiBi, a bias and not a mask: a key costs ``slope`` for every position between it and the query.

    q_len=3 k_len=3 slope=1 corner=top-left
     0 -1 -2
    -1  0 -1
    -2 -1  0

    q_len=2 k_len=4 slope=0.5 corner=bottom-right
    -1.0 -0.5  0.0 -0.5
    -1.5 -1.0 -0.5  0.0

It hides nothing: combine it with ``& causal()``. Every head has a slope of its own.

Source: Press, Smith and Lewis 2022, "Train Short, Test Long", arXiv 2108.12409, section 3.
Used by: BLOOM, MPT, flash-attention's alibi_slopes.
"""

from typing import Any

from softlookup.masks.accept import corner_name, whole_number
from softlookup.masks.predicate import Index, query_position
from softlookup.terms import Corner

PER_HEAD = ("slope",)


def slopes(num_heads: int) -> tuple[float, ...]:
    """Return one slope for each head.

    For n heads, n a power of two: 2^(-8/n), 2^(-16/n), ... 2^-8. For another number: those of the largest
    power of two below it, then every other slope, from the first, of the power of two above it.

    Raises: SoftlookupError when num_heads is not at least 1.

    >>> slopes(4)
    (0.25, 0.0625, 0.015625, 0.00390625)
    >>> slopes(3) == (*slopes(2), slopes(4)[0])
    True
    """
    power = 1 << (whole_number("num_heads", num_heads, at_least=1).bit_length() - 1)
    even = [2 ** (-8 * head / power) for head in range(1, power + 1)]
    between = [2 ** (-8 * head / (2 * power)) for head in range(1, 2 * power, 2)]
    return (*even, *between[: num_heads - power])


def parameters(*, num_heads: int, corner: Corner = "top-left") -> dict[str, Any]:
    """``num_heads``: H, which fixes the slopes."""
    return {"slope": slopes(num_heads), "corner": corner_name(corner)}


def bias(i: Index, j: Index, *, q_len: int, k_len: int, slope: Any, corner: Corner) -> Index:
    """Return what is added to the score of query i and key j."""
    return -slope * abs(query_position(i, q_len=q_len, k_len=k_len, corner=corner) - j)
