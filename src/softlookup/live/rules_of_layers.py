"""Which declared rule a call has to keep, and where its queries stand among the keys."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from softlookup.live.kept_answers import KeptAnswers
from softlookup.live.problem import Problem
from softlookup.live.record import Call
from softlookup.masks import Mask
from softlookup.statistics.seen_keys import SeenKeys, Shard

#: None, a mask for all self-attention, or masks by patterns of paths.
RuleLike: TypeAlias = Mask | Tensor | Mapping[str, "Mask | Tensor | None"] | None


class Asked(NamedTuple):
    """What a call is compared with; first_position: where query 0 stands among the keys."""

    rule: KeptAnswers | None = None
    first_position: int = 0
    not_asked: str = ""


class DeclaredRules:
    """What was declared for one watch; a rule is read once for all layers and steps that ask the same."""

    def __init__(self, rule: RuleLike) -> None:
        self._by_pattern = rule if isinstance(rule, Mapping) else {"*": rule}
        self._named = isinstance(rule, Mapping)  # a rule by pattern holds for whatever it names
        self._seen = lru_cache(maxsize=64)(_seen)

    def asked_of(self, call: Call, problem: Problem, *, called_attention: bool = True) -> Asked:
        """Return what a call is compared with.

        called_attention: False for a softmax outside the layers that are called so, e.g. between streams
        """
        first = problem.k_len - problem.q_len if call.kind == "cached" else 0
        fits = (it for pattern, it in self._by_pattern.items() if fnmatch.fnmatchcase(call.layer, pattern))
        chosen = next(fits, None)
        if chosen is None:
            return Asked(None, first)
        if call.kind == "cross" and not self._named:
            return Asked(None, first, "it looks at another sequence")
        if not called_attention and not self._named:
            return Asked(None, first, "it is a softmax outside the layers that are called attention")
        if call.kind == "cached" and not _last_key_seen(problem):
            why = "where its queries stand is not known: the last keys are hidden from all"
            return Asked(None, first, why)
        length = problem.k_len if call.kind == "cached" else problem.q_len
        shard = Shard(first, 0, length, problem.k_len)
        return Asked(self._seen(chosen, problem.q_len, shard, problem.device), first)


def _seen(rule: Mask | Tensor, q_len: int, shard: Shard, device: torch.device) -> KeptAnswers:
    mask = rule if isinstance(rule, Mask) else Mask.from_tensor(rule.to(device))
    return KeptAnswers(SeenKeys.of(mask, q_len, shard.k_total, device=device, shard=shard))


def _last_key_seen(problem: Problem) -> bool:
    """Whether the last query of some sample sees the last key, as it does unless the cache has room left."""
    last = torch.tensor([problem.q_len - 1], device=problem.device)
    for sample in range(problem.batch_size):
        scores, allowed = problem.rows(sample, last)
        seen = allowed.expand(scores.shape)
        if seen.shape[-1] >= problem.k_len and bool(seen[..., problem.k_len - 1].any()):
            return True
    return False
