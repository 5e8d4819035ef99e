"""What every visibility rule is written with: positions, as numbers or as index tensors alike.

A rule is ``allowed(i, j, *, q_len, k_len, ...)``: may query ``i`` look at key ``j``? It works on two
integers and, by broadcasting, on ``i: [q_len, 1]`` and ``j: [1, k_len]``. A file of this folder that
defines ``allowed`` is a rule (``bias`` instead of ``allowed``: a float that is added to the scores), and it
may also define

    parameters(**given) -> dict     check the parameters and return them complete, defaults filled in
    PER_SAMPLE = ("name",)          parameters that count keys, one for all samples or a tuple of B
    PER_TOKEN = ("name",)           parameters with one id per sample and key: tensor [B, T_k]
    PER_HEAD = ("name",)            parameters with one number per head
    KEYS_ONLY = True                the answer is the same for every query
    fixed_k_len(**parameters)       the only number of keys that the rule is for
    check_lengths(*, q_len, k_len, **parameters)      raise when the rule does not fit these lengths
    always_sees(*, q_len, k_len, **parameters)        names of keys that no query misses, see below
    span(i, *, q_len, k_len, **parameters)            (first, stop), see below
    intervals(i, *, q_len, k_len, most, **parameters) the same where there may be several, see below

``always_sees`` is how "no row is empty" is known without a tensor: two rules that both show every query its
own key still show it when combined. Names are ``"first key"``, ``"last key"`` and what ``own_key`` returns.

``span`` says the rule a second time, for those who compute only what is seen: query i sees exactly the keys
``first <= j < stop``, as far as there are such. It works on an integer and on ``i: [q_len]``, where what is
PER_SAMPLE comes as [B, 1]; the answers may be anything that fits [B, q_len]. Where the keys that a query sees
need not lie side by side, ``intervals`` takes its place, on tensors only: PER_TOKEN comes as it is, and
first and stop are [layers, B, q_len], from left to right and filled up with k_len; None for more than
``most`` layers. A rule that is KEYS_ONLY needs neither; any other that has neither is not cut at all.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from torch import Tensor

from softlookup.terms import Corner

#: An int (or bool) or an integer (or bool) tensor.
Index: TypeAlias = Any


def query_position(i: Index, *, q_len: int, k_len: int, corner: Corner) -> Index:
    """Return where query i stands among the keys: at key i, or so that the last query is at the last key."""
    return i if corner == "top-left" else i + (k_len - q_len)


def at(data: Any, position: Index) -> Index:
    """Return the entry of a list, or of the last axis of ``data: [..., T]``, at a position."""
    return data[position] if isinstance(data, (list, tuple)) else data[..., position]


def larger(a: Index, b: Index) -> Index:
    """Return the larger of two numbers, entry by entry."""
    if isinstance(a, Tensor):
        return a.clamp(min=b)
    return b.clamp(min=a) if isinstance(b, Tensor) else max(a, b)


def own_key(*, q_len: int, k_len: int, corner: Corner) -> frozenset[str]:
    """Name the key at the query's own position, for ``always_sees``; nothing where one has none."""
    if q_len > k_len:
        return frozenset()
    return frozenset({"own key"} if q_len == k_len else {f"own key, {corner}"})
