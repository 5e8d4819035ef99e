"""What a mask answers, kept for a step: every layer of a model asks the same of the same mask."""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Any

from torch import Tensor

from softlookup.conventions.tensors import HIDES
from softlookup.masks import causal
from softlookup.statistics.reading import read_seen
from softlookup.statistics.seen_keys import SeenKeys
from softlookup.terms import MaskLike

#: The one that doors name where a call says is_causal, so that it is known again.
CAUSAL = causal()
_MOST = 1 << 22  # bytes that are kept of one mask


class KeptAnswers:
    """A mask that is asked about the same queries again and again; its answers must not be written to."""

    def __init__(self, seen: SeenKeys) -> None:
        self.seen = seen
        self._answers: dict[Hashable, Any] = {}
        self._size = 0

    def stop(self, sample: int, rows: Tensor) -> int:
        """Return how many keys have to be looked at: those behind are hidden from all these queries."""
        key = ("stop", self._sample(sample), tuple(rows.tolist()))
        if key not in self._answers:
            ends = (it.stop for it in self.seen.ranges(sample, rows))
            self._keep(key, max(ends, default=0), len(rows))
        stop: int = self._answers[key]
        return stop

    def allowed(self, sample: int, rows: Tensor, keys: slice) -> Tensor:
        """Return what ``SeenKeys.allowed`` does."""
        key = (self._sample(sample), tuple(rows.tolist()), keys.start, keys.stop)
        if key not in self._answers:
            allowed = self.seen.allowed(sample, rows, keys)
            self._keep(key, allowed, allowed.numel())
        answer: Tensor = self._answers[key]
        return answer

    def shown(self, sample: int, rows: Tensor, keys: slice) -> tuple[Tensor | None, Tensor]:
        """Return what is added to scores, if anything, and which keys are seen then: [1 or H, n or 1, keys].

        The lowest finite numbers hide as -inf does.
        """
        if not self.seen.adds:
            return None, self.allowed(sample, rows, keys)
        key = ("shown", self._sample(sample), tuple(rows.tolist()), keys.start, keys.stop)
        if key not in self._answers:
            added = self.seen.added(sample, rows, keys)
            assert added is not None
            allowed = self.seen.allowed(sample, rows, keys) & ~(added <= HIDES)
            self._keep(key, (added, allowed), added.numel() * added.element_size() + allowed.numel())
        answer: tuple[Tensor, Tensor] = self._answers[key]
        return answer

    def _sample(self, sample: int) -> int:
        return sample if self.seen.samples > 1 else 0

    def _keep(self, key: Hashable, answer: Any, size: int) -> None:
        if self._size + size > _MOST:
            self._answers.clear()
            self._size = 0
        self._answers[key] = answer
        self._size += size


class _Last(threading.local):
    """The mask that this thread asked last, and what was known of it."""

    key: Hashable = None
    mask: Any = None  # held, so that no other tensor takes its memory, and with it its key
    answers: KeptAnswers | None = None


_last = _Last()


def answers_of(mask: Tensor | MaskLike | None, q: Tensor, k: Tensor) -> KeptAnswers:
    """Return the mask as q [..., T_q, d_head] and k [..., T_k, d_head] ask it: the last one again, if it is.

    Raises: SoftlookupError for a mask that is none or does not fit.
    """
    key = _key(mask)
    if key is None:
        return KeptAnswers(read_seen(q, k, mask))
    key = (key, q.shape[:-1], k.shape[:-1], q.device)
    if _last.answers is None or _last.key != key:
        _last.key, _last.mask, _last.answers = key, mask, KeptAnswers(read_seen(q, k, mask))
    return _last.answers


def forget() -> None:
    """Let go of the mask that this thread asked last."""
    _last.key = _last.mask = _last.answers = None


def _key(mask: Tensor | MaskLike | None) -> Hashable:
    """What tells a mask from others, and from itself after it was written to; None where nothing does."""
    if mask is None or mask is CAUSAL:
        return "" if mask is None else "causal"
    if not isinstance(mask, Tensor) or mask.is_inference():
        return None
    place = mask.data_ptr(), tuple(mask.shape), mask.stride(), mask.dtype, mask.device
    return (*place, mask._version)
