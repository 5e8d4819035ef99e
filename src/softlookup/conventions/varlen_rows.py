"""Documents in one row, as the kernels for variable lengths take them, and the masks that they mean.

Queries of all samples lie one behind the other in one row, and so do keys. Document n has the queries
q_bounds[n] to q_bounds[n + 1] and the keys k_bounds[n] to k_bounds[n + 1], and sees nothing else. Within a
document positions are counted from its end: its last query stands at its last key.

A padded batch of B samples is such a row once its keys are unpadded: B documents of T_q queries and as many
keys as are real. Read back for ``batch_size`` samples, documents are dealt out to the samples in order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import torch
from torch import Tensor

from softlookup.conventions.packed_lengths import document_lengths
from softlookup.conventions.parts import Parts, band_rule, in_band, parts_of
from softlookup.conventions.recognising import recognise
from softlookup.conventions.spelling import Sizes, refuse_shape
from softlookup.conventions.tensors import as_tensor, both, full_of, given
from softlookup.masks import Mask, packed, padding
from softlookup.terms import Corner, SoftlookupError

NO_BOUND = -1

_T = TypeVar("_T")

_ROWS = "the queries behind each length: they are unpadded like the keys, and nothing is computed for them"
_PADDING = "padding: the band would be counted from the last real key of each sample"
_BAND = "the band: it can only be counted from the last key of each document, and alike in all documents"
_KEYS = "hidden keys that are not the last ones of a sample: once unpadded they cannot be told"
_APART = "documents whose tokens do not lie side by side"
_REST = "what is neither a band, nor padding at the end, nor documents, or differs between heads"


@dataclass(frozen=True)
class Rows:
    """What a kernel for variable lengths is told.

    left, right: how many keys before and behind its own position a query sees, ``NO_BOUND`` for all
    """

    q_bounds: tuple[int, ...]
    k_bounds: tuple[int, ...]
    left: int = NO_BOUND
    right: int = NO_BOUND

    def q_tensor(self) -> Tensor:
        """The cumulative lengths of the queries, as kernels take them."""
        return torch.tensor(self.q_bounds, dtype=torch.int32)

    def k_tensor(self) -> Tensor:
        """The cumulative lengths of the keys, as kernels take them."""
        return torch.tensor(self.k_bounds, dtype=torch.int32)

    @property
    def longest(self) -> tuple[int, int]:
        """The most queries and the most keys of a document."""
        return max(_lengths(self.q_bounds)), max(_lengths(self.k_bounds))

    def within(self, q_len: int, k_len: int) -> Tensor:
        """Return who sees whom in a document: bool [q_len, k_len]."""
        distance = torch.arange(k_len) - torch.arange(k_len - q_len, k_len)[:, None]
        left, right = bound(self.left), bound(self.right)
        return in_band(distance, None if left is None else -left, right)


def bound(number: int) -> int | None:
    """Return a number of keys, None where it says that there is no bound."""
    return None if number == NO_BOUND else number


def bounds_of(value: Any, whose: str, argument: str) -> tuple[int, ...]:
    """Return cumulative lengths as a tuple.

    Raises: SoftlookupError when they are no integers [documents + 1] that rise from 0.
    """
    tensor = as_tensor(value, f"{whose}: {argument}")
    floating = tensor.dtype.is_floating_point or tensor.dtype == torch.bool
    if tensor.dim() != 1 or len(tensor) < 2 or floating:
        raise refuse_shape(
            tensor, whose, argument, "integers [documents + 1]: 0, then where each document ends"
        )
    bounds = tuple(tensor.tolist())
    if bounds[0] != 0 or any(a > b for a, b in pairwise(bounds)):
        raise SoftlookupError(
            f"{whose}: {argument} are not cumulative lengths.",
            expected="0 first, then the end of every document, never falling, such as [0, 3, 5]",
            got=str(list(bounds)),
        )
    return bounds


def window_of(value: Any, whose: str) -> tuple[int, int]:
    """Return how many keys before and behind its own position a query sees; any negative number is no bound.

    Raises: SoftlookupError when it is not two whole numbers.
    """
    if value is None:
        return NO_BOUND, NO_BOUND
    if not isinstance(value, (tuple, list)) or [type(number) for number in value] != [int, int]:
        raise SoftlookupError(
            f"{whose}: window_size does not look like one.",
            expected="(left, right): keys before and behind its own position, -1 for no bound",
            got=repr(value),
        )
    left, right = (max(NO_BOUND, number) for number in value)
    return left, right


def band_of(left: int, right: int, corner: Corner) -> Mask | None:
    """Return the rule that shows ``left`` keys before and ``right`` behind the own one, if there is one."""
    return band_rule(bound(left), bound(right), corner)


def fitting(rows: Rows, longest: tuple[Any, Any], whose: str) -> Rows:
    """Return rows as they are: both sides have as many documents, and none is longer than the longest.

    longest: the most queries and keys of a document that the kernel was told, None where it was not

    Raises: SoftlookupError when they do not fit.
    """
    if len(rows.q_bounds) != len(rows.k_bounds):
        raise SoftlookupError(
            f"{whose}: queries and keys are cut into as many documents.",
            expected=f"{len(rows.q_bounds) - 1} documents of keys",
            got=f"{len(rows.k_bounds) - 1}",
        )
    for which, said, real in zip(("queries", "keys"), longest, rows.longest, strict=True):
        if said is not None and said < real:
            raise SoftlookupError(
                f"{whose}: a document is longer than the longest.",
                expected=f"at least {real}, the most {which} of a document",
                got=f"{said}: what is behind it would not be computed",
            )
    return rows


def rows_of(mask: Mask, sizes: Sizes) -> tuple[Rows, tuple[str, ...]]:
    """Return the rows that say a mask, and in words what they do not say.

    Raises: SoftlookupError when a length is needed and nobody said it, or does not fit the mask.
    """
    q_len, k_len = sizes.of("q_len", "a row of queries"), sizes.of("k_len", "a row of keys")
    parts, lost = _sayable(mask, sizes)
    samples = sizes.batch_size or _samples(parts)
    lengths = _for_each(parts.lengths or (k_len,), samples)
    documents = document_lengths(parts.cu_seqlens, parts.document_ids)
    if documents is None:
        lost = (*lost, _APART)
    if documents:
        each = list(zip(_for_each(documents, samples), lengths, strict=True))
        padded = [block for tokens, length in each for block in _cut_off(tokens, length)]
        full = [(n, n) for tokens, _ in each for n in tokens]
    else:
        padded, full = [(q_len, length) for length in lengths], [(q_len, k_len)] * samples
    band = (parts.low, parts.high)
    ways = [(padded, band, ()), (full, band, (_PADDING,)), (padded, (None, None), (_BAND,))]
    if not documents and q_len == k_len:
        ways.insert(1, ([(length, length) for length in lengths], band, (_ROWS,)))
    return next(
        (Rows(_bounds(q for q, _ in blocks), _bounds(k for _, k in blocks), *reach), (*lost, *why))
        for blocks, band, why in ways
        if (reach := _reach(blocks, *band)) is not None
    )


def mask_of(rows: Rows, sizes: Sizes, whose: str) -> Mask:
    """Return the mask that rows mean, for ``batch_size`` samples, or for one row where nobody said it.

    A query that has no place in the row sees everything: nothing is computed for it, and nothing hidden.

    Raises: SoftlookupError when the documents cannot be dealt out to so many samples of such lengths.
    """
    samples = sizes.batch_size or 1
    alone = (rows.q_bounds[-1], rows.k_bounds[-1]) if samples == 1 else rows.longest
    q_len, k_len = sizes.q_len or alone[0], sizes.k_len or alone[1]
    if samples == 1 and rows.q_bounds == rows.k_bounds and rows.q_bounds[-1] == q_len == k_len:
        band = band_of(rows.left, rows.right, "top-left")
        if band is not None:
            return band if len(rows.q_bounds) == 2 else both(packed(rows.q_bounds), band)
    q_lens, k_lens = _lengths(rows.q_bounds), _lengths(rows.k_bounds)
    if len(q_lens) == samples and set(q_lens) == {q_len} and max(k_lens) <= k_len:
        band = band_of(rows.left, rows.right, "top-left" if q_len == k_len else "bottom-right")
        if set(k_lens) == {k_len} and band is not None:
            return band
        if (rows.left, rows.right) == (NO_BOUND, NO_BOUND):
            return padding(k_lens)
    allowed = torch.zeros(samples, 1, q_len, k_len, dtype=torch.bool)
    placed = [[0, 0] for _ in range(samples)]  # the queries and keys of a sample that have a document
    for sample, q, k in _dealt_out(q_lens, k_lens, samples, q_len):
        i, j = placed[sample]
        if i + q > q_len or j + k > k_len:
            raise _does_not_fit(rows, samples, (q_len, k_len), whose)
        allowed[sample, 0, i : i + q, j : j + k] = rows.within(q, k)
        placed[sample] = [i + q, j + k]
    if samples * q_len < rows.q_bounds[-1]:
        raise _does_not_fit(rows, samples, (q_len, k_len), whose)
    for sample, (i, _) in enumerate(placed):
        allowed[sample, :, i:] = True
    return given(allowed)


def _sayable(mask: Mask, sizes: Sizes) -> tuple[Parts, tuple[str, ...]]:
    """Return the parts of a mask less what no row says; a tensor is searched for parts."""
    parts = parts_of(mask, sizes)
    if parts.rest or (parts.keys is not None and parts.lengths is None):
        found = recognise(full_of(mask, sizes))
        parts = parts if found is None else parts_of(found, sizes)
    lost = (_REST,) * bool(parts.rest)
    if parts.keys is not None and parts.lengths is None:
        parts, lost = replace(parts, keys=None), (*lost, _KEYS)
    return replace(parts, rest=()), lost


def _reach(blocks: list[tuple[int, int]], low: int | None, high: int | None) -> tuple[int, int] | None:
    """Return how far a query sees before and behind its own position, counted from the end of its document.

    blocks: queries and keys of each document; low, high: the lowest and highest j - i that is visible

    None when documents of these lengths would need different numbers, or negative ones.
    """
    blocks = [(q, k) for q, k in blocks if q and k]
    left = {k - q - low if low is not None and low > 1 - q else None for q, k in blocks}
    right = {high - (k - q) if high is not None and high < k - 1 else None for q, k in blocks}
    enough_left = max((k - 1 for q, k in blocks if low is None or low <= 1 - q), default=0)
    enough_right = max((q - 1 for q, k in blocks if high is None or high >= k - 1), default=0)
    reaches = _one(left, enough_left), _one(right, enough_right)
    return None if reaches[0] is None or reaches[1] is None else (reaches[0], reaches[1])


def _one(needed: set[int | None], enough: int) -> int | None:
    """Return the one number that all documents need; those that need none must not notice it: ``enough``."""
    numbers = needed - {None}
    if not numbers:
        return NO_BOUND
    number = numbers.pop()
    return number if not numbers and number is not None and number >= enough else None


def _dealt_out(
    q_lens: list[int], k_lens: list[int], samples: int, q_len: int
) -> Iterator[tuple[int, int, int]]:
    """Yield the sample, the queries and the keys of each document: one a sample, or as many as fill it."""
    one_each, start = len(q_lens) == samples, 0
    for n, (q, k) in enumerate(zip(q_lens, k_lens, strict=True)):
        yield n if one_each else min(start // max(q_len, 1), samples - 1), q, k
        start += q


def _does_not_fit(rows: Rows, samples: int, lengths: tuple[int, int], whose: str) -> SoftlookupError:
    return SoftlookupError(
        f"{whose}: these documents do not fit the batch.",
        expected=f"documents that fill {samples} samples of {lengths[0]} queries and at most {lengths[1]} "
        "keys, or one document for each sample",
        got=f"documents of {_lengths(rows.q_bounds)} queries and {_lengths(rows.k_bounds)} keys",
        hint="batch_size=, q_len= and k_len= of the padded batch; without batch_size it is one row",
    )


def _cut_off(tokens: list[int], length: int) -> Iterator[tuple[int, int]]:
    """Yield the queries and keys of documents in a sample of which only the first keys are real."""
    for start, stop in pairwise(accumulate(tokens, initial=0)):
        yield stop - start, max(0, min(stop, length) - start)


def _samples(parts: Parts) -> int:
    ids = 1 if parts.document_ids is None else parts.document_ids.shape[0]
    return max(ids, len(parts.lengths or (1,)))


def _for_each(values: Sequence[_T], samples: int) -> Sequence[_T]:
    return values if len(values) == samples else [*values] * samples


def _lengths(bounds: tuple[int, ...]) -> list[int]:
    return [stop - start for start, stop in pairwise(bounds)]


def _bounds(lengths: Iterable[int]) -> tuple[int, ...]:
    return tuple(accumulate(lengths, initial=0))
