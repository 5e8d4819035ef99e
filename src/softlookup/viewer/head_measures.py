"""What heads can be searched for. A measure is a number of each row of a map; a head's is the mean of them.

A measure is one function and one entry of ``MEASURES``. It returns NaN for rows of which it says nothing,
such as "previous token" of the first query. The same function of the uniform map says what chance would give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

_NEAR = 4  # tokens away
_SEPARATORS = {".", ",", ";", ":", "!", "?", "[SEP]", "</s>", "<s>", "[CLS]", "<|endoftext|>", "\n"}


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some queries of all heads of one call.

    weights: [H, n, T_k]
    visible: bool [H or 1, n, T_k] who may be looked at
    own: int64 [n] the key at the query's own position; None: keys of another sequence (cross-attention)
    tokens: int64 [T_k] the same number for the same token;  separators: bool [T_k]; None: tokens unknown
    """

    weights: Tensor
    visible: Tensor
    own: Tensor | None = None
    tokens: Tensor | None = None
    separators: Tensor | None = None

    @cached_property
    def entropy_nats(self) -> Tensor:
        """[H, n]; NaN where a query sees no key."""
        entropy: Tensor = torch.special.entr(self.weights).sum(dim=-1)
        return entropy.masked_fill(self.sums == 0, math.nan)

    @cached_property
    def sums(self) -> Tensor:
        """[H, n]: what each row sums to."""
        return self.weights.sum(dim=-1)

    @cached_property
    def visible_count(self) -> Tensor:
        """[H or 1, n]: how many keys a query may look at."""
        return self.visible.sum(dim=-1)

    def at(self, keys: Tensor) -> Tensor:
        """Return [H, n] the weight on one key of each query; NaN where there is no such key."""
        inside = (keys >= 0) & (keys < self.weights.shape[-1])
        index = keys.clamp(0, self.weights.shape[-1] - 1).expand(*self.weights.shape[:-1])
        found = self.weights.gather(-1, index[..., None])[..., 0]
        return found.masked_fill(~inside, math.nan)

    def on(self, keys: Tensor) -> Tensor:
        """Return [H, n] the weight on several keys of each query, bool [n, T_k]; NaN where there are none."""
        found = torch.einsum("hnk,nk->hn", self.weights, keys.to(self.weights.dtype))
        return found.masked_fill(~keys.any(dim=-1), math.nan)

    def nothing(self) -> Tensor:
        """Return [H, n] of NaN: nothing can be said."""
        return self.weights.new_full(self.weights.shape[:-1], math.nan)

    def uniform(self) -> RowBlock:
        """Return the same queries, each with the same weight on every key that it may look at."""
        return replace(self, weights=self.visible / self.visible_count.clamp(min=1)[..., None])


@dataclass(frozen=True, eq=False)
class LayerTokens:
    """What a layer's tokens say to the measures: see ``RowBlock``.

    offset: own key of query 0; None: keys of another sequence
    """

    offset: int | None = None
    numbers: Tensor | None = None
    separators: Tensor | None = None


@dataclass(frozen=True)
class Measure:
    """Something that heads are searched for.

    name: what is typed;  how: what the number is, in one sentence;  aliases: what else is typed for it
    of: [H, n] the number of each row, NaN where it says nothing
    """

    name: str
    how: str
    of: Callable[[RowBlock], Tensor]
    aliases: tuple[str, ...] = ()


def previous_token(rows: RowBlock) -> Tensor:
    """Weight on the key right before the query's own."""
    return rows.nothing() if rows.own is None else rows.at(rows.own - 1)


def first_token(rows: RowBlock) -> Tensor:
    """Weight on key 0, of queries that see another key as well."""
    first = rows.weights[..., 0]
    return first.masked_fill(rows.visible_count <= 1, math.nan)


def self_token(rows: RowBlock) -> Tensor:
    """Weight on the query's own key, of queries that see another key as well."""
    if rows.own is None:
        return rows.nothing()
    return rows.at(rows.own).masked_fill(rows.visible_count <= 1, math.nan)


def next_token(rows: RowBlock) -> Tensor:
    """Weight on the key right after the query's own, of queries that may look at it."""
    if rows.own is None:
        return rows.nothing()
    after = rows.own + 1
    may = rows.visible.gather(
        -1, after.clamp(max=rows.visible.shape[-1] - 1).expand(len(rows.visible), -1)[..., None]
    )
    return rows.at(after).masked_fill(~may[..., 0], math.nan)


def induction(rows: RowBlock) -> Tensor:
    """Weight on the keys right after earlier places of the query's own token."""
    if rows.own is None or rows.tokens is None:
        return rows.nothing()
    same = rows.tokens[rows.own.clamp(max=len(rows.tokens) - 1), None] == rows.tokens  # [n, T_k]
    after = torch.zeros_like(same)
    after[:, 1:] = same[:, :-1]
    places = torch.arange(same.shape[-1], device=same.device)
    return rows.on(after & (places <= rows.own[:, None]))


def same_token(rows: RowBlock) -> Tensor:
    """Weight on earlier places of the query's own token."""
    if rows.own is None or rows.tokens is None:
        return rows.nothing()
    same = rows.tokens[rows.own.clamp(max=len(rows.tokens) - 1), None] == rows.tokens
    places = torch.arange(same.shape[-1], device=same.device)
    return rows.on(same & (places < rows.own[:, None]))


def near_tokens(rows: RowBlock) -> Tensor:
    """Weight on keys at most 4 away, of queries that see a key farther away."""
    if rows.own is None:
        return rows.nothing()
    away = (torch.arange(rows.weights.shape[-1], device=rows.weights.device) - rows.own[:, None]).abs()
    near = away <= _NEAR
    far_seen = (rows.visible & ~near).any(dim=-1)
    return rows.on(near).masked_fill(~far_seen, math.nan)


def separators(rows: RowBlock) -> Tensor:
    """Weight on tokens that end or part sentences."""
    if rows.separators is None:
        return rows.nothing()
    return rows.on(rows.separators.expand(rows.weights.shape[-2], -1))


def uniform(rows: RowBlock) -> Tensor:
    """Entropy divided by log(visible keys), of queries that see at least two."""
    seen = rows.visible_count
    share = rows.entropy_nats / seen.clamp(min=2).to(rows.weights.dtype).log()
    return share.clamp(max=1.0).masked_fill(seen <= 1, math.nan)


def one_key(rows: RowBlock) -> Tensor:
    """Largest weight of the row, of queries that see at least two keys."""
    return rows.weights.amax(dim=-1).masked_fill(rows.visible_count <= 1, math.nan)


def distance_tokens(rows: RowBlock) -> Tensor:
    """Return [H, n] the mean distance from the query's own position, by weight, in tokens."""
    if rows.own is None:
        return rows.nothing()
    places = torch.arange(rows.weights.shape[-1], device=rows.weights.device)
    away = (places - rows.own[:, None]).abs().to(rows.weights.dtype)
    distance = torch.einsum("hnk,nk->hn", rows.weights, away)
    return distance.masked_fill(rows.sums == 0, math.nan)


def is_separator(token: str) -> bool:
    """Say whether a token ends or parts sentences.

    >>> [is_separator(it) for it in (" .", "[SEP]", "the")]
    [True, True, False]
    """
    return token in _SEPARATORS or token.strip(" ▁Ġ") in _SEPARATORS


MEASURES = (
    Measure(
        "previous token",
        "mean weight of a query on the token right before it",
        previous_token,
        ("before", "-1", "shift"),
    ),
    Measure(
        "first token",
        "mean weight on key 0, over queries that see another key as well",
        first_token,
        ("sink", "bos", "cls", "beginning"),
    ),
    Measure(
        "self",
        "mean weight of a query on its own position, over queries that see another key as well",
        self_token,
        ("own", "diagonal", "identity"),
    ),
    Measure(
        "induction",
        "mean weight on the tokens right after earlier places of the query's own token, over queries whose"
        " token stood before",
        induction,
        ("copy", "repeat", "pattern"),
    ),
    Measure(
        "same token",
        "mean weight on earlier places of the query's own token, over queries whose token stood before",
        same_token,
        ("duplicate",),
    ),
    Measure(
        "next token",
        "mean weight on the token right after the query, over queries that may look at it",
        next_token,
        ("after", "+1"),
    ),
    Measure(
        "near",
        "mean weight on tokens at most 4 away, over queries that see one farther away",
        near_tokens,
        ("local", "window", "neighbours"),
    ),
    Measure(
        "separators",
        "mean weight on . , ; : ! ? and the special tokens that begin and end sequences",
        separators,
        ("punctuation", "sep", "delimiter"),
    ),
    Measure(
        "uniform",
        "mean entropy divided by log(visible keys), over queries that see at least two: 1 is alike on all",
        uniform,
        ("broad", "entropy", "average", "diffuse"),
    ),
    Measure(
        "one key",
        "mean of the largest weight of a row, over queries that see at least two keys: 1 is all on one key",
        one_key,
        ("sharp", "peaked", "max", "focus"),
    ),
)
