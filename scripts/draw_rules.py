"""Run each rule's wrong step on the smallest case that shows it, and keep the weights, wrong beside right.

The drawings are data: `softlookup explain` shows them without importing torch. `write_docs.py` writes them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from softlookup import catalog
from softlookup.attention import STEPS
from softlookup.checker.evidence import Evidence
from softlookup.checker.hypotheses import hypotheses_of
from softlookup.terms import Case, Contract

Answers = tuple[Tensor, Tensor | None]  # output [B, H, T_q, d_v] and weights [B, H, T_q, T_k]
INTEGER_MASKS = {"integer-mask-negated-bitwise"}  # rules that a boolean mask does not show
SEEN_FROM = 0.03  # a difference in the drawing, not in the third decimal


def a_case(name: str, sizes: tuple[int, int, int, int], **rules: Any) -> Case:
    """Return a case of B, H, T_q, T_k with d_head 4; values are sines, so that they stay put."""
    B, H, T_q, T_k = sizes
    H_kv = rules.pop("kv_heads", H)
    d_v, size = rules.pop("d_v", 2), rules.pop("size", 1.5)
    dtype = rules.pop("dtype", torch.float64)

    def numbers(shape: tuple[int, ...], step: float) -> Tensor:
        count = math.prod(shape)
        return (torch.arange(1, count + 1, dtype=torch.float64) * step).sin().reshape(shape)

    q, k = size * numbers((B, H, T_q, 4), 2.4), size * numbers((B, H_kv, T_k, 4), 1.7)
    v = 3 * numbers((B, H_kv, T_k, d_v), 2.9)
    return Case(q.to(dtype), k.to(dtype), v.to(dtype), name=name, **rules)


def cases() -> Iterator[Case]:
    """Yield problems, the plainest first; a rule is drawn on the first one that shows it."""
    last_hidden = torch.tensor([True, True, True, False])
    yield a_case("no mask", (1, 1, 4, 4))
    yield a_case("causal", (1, 1, 4, 4), causal="top-left")
    yield a_case("the last key is padding", (1, 1, 4, 4), allowed_mask=last_hidden.expand(1, 1, 1, 4))
    yield a_case(
        "causal, the last key is padding",
        (1, 1, 4, 4),
        causal="top-left",
        allowed_mask=last_hidden.expand(1, 1, 1, 4),
    )
    yield a_case("causal, counted from the last key", (1, 1, 2, 4), causal="bottom-right")
    yield a_case("causal window of 2 keys", (1, 1, 4, 4), causal="top-left", window=2)
    yield a_case("two packed documents", (1, 1, 4, 4), document_ids=torch.tensor([[0, 0, 1, 1]]))
    yield a_case("a scale of 2", (1, 1, 4, 4), scale=2.0)
    yield a_case("a bias that favours near keys", (1, 1, 4, 4), additive_bias=-_distance(4))
    yield a_case("large scores", (1, 1, 4, 4), size=60.0)
    yield a_case("sample 1 of 2, other padding in each", (2, 1, 3, 3), allowed_mask=_padding(2, 3))
    yield a_case("head 0 of 2", (1, 2, 3, 3))
    yield a_case("sample 0 of 2", (2, 1, 3, 3))
    yield a_case("one of 4 heads that share 2 key/value heads", (1, 4, 3, 3), kv_heads=2)
    yield a_case(
        "2 samples with 2 heads, other padding in each sample", (2, 2, 3, 3), allowed_mask=_padding(2, 3)
    )
    zero = a_case("key 1 scores exactly 0, the last key is padding", (1, 1, 4, 4))
    yield zero.but(k=_with_zeros(zero.k), allowed_mask=last_hidden.expand(1, 1, 1, 4))
    yield a_case("values as wide as keys", (1, 1, 3, 3), d_v=4)
    yield a_case("query 0 may look nowhere", (1, 1, 3, 3), allowed_mask=_rows_from(1, 3))
    yield a_case("float16, the last key is padding", (1, 1, 4, 4), dtype=torch.float16,
                 allowed_mask=last_hidden.expand(1, 1, 1, 4))  # fmt: skip


def drawings() -> dict[str, dict[str, Any]]:
    """Return name -> {"case", "of", "wrong", "right"} for every rule that a map can show."""
    nothing_seen = Evidence(Contract(), ())
    found = {}
    for entry in catalog.rules():
        wrong: list[Callable[[Case], Answers]] = [h.steps for h in hypotheses_of(entry, nothing_seen)]
        if not wrong and hasattr(module := entry.load(), "mutant"):
            wrong = [partial(_whole, module.mutant, integers=entry.name in INTEGER_MASKS)]
        if drawing := plainest(wrong):
            found[entry.name] = drawing
    return found


def plainest(answers: Sequence[Callable[[Case], Answers]]) -> dict[str, Any] | None:
    """Return the drawing of the plainest case that shows one of these wrong answers, or None."""
    fallback = None
    for case in cases():
        right = STEPS(case)
        for answer in answers:
            try:
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(0)  # some rules draw random numbers
                    shown = _difference(case, answer(case), right)
            except (RuntimeError, ValueError, IndexError, TypeError, KeyError):
                continue  # this wrong step cannot run on this case
            if shown is not None and _rows_are_full(shown):
                return shown
            fallback = fallback or shown
    return fallback


def _whole(make: Callable[[], Callable[..., Any]], case: Case, *, integers: bool) -> Answers:
    """Run a mutant that is a function of its own. It knows a mask and the causal flag."""
    beyond = (case.window, case.document_ids, case.scale, case.additive_bias)
    if any(rule is not None for rule in beyond) or case.causal == "bottom-right":
        raise ValueError("it has no parameter for this")
    q, k, v = case.q.clone(), case.k.clone(), case.v.clone()
    extra: dict[str, Any] = {}
    if case.allowed_mask is not None:
        extra["allowed_mask"] = case.allowed_mask.long() if integers else case.allowed_mask.clone()
    if case.causal is not None:
        extra["is_causal"] = True
    result = make()(q, k, v, **extra)
    return result if isinstance(result, tuple) else (result, None)


def _difference(case: Case, wrong: Answers, right: tuple[Tensor, Tensor]) -> dict[str, Any] | None:
    """Return the drawing of the sample and head that differ most, weights before output."""
    for of, bad, good in (("weights", wrong[1], right[1]), ("output", wrong[0], right[0])):
        if bad is None or bad.shape != good.shape:
            continue
        gap = (bad - good).abs().nan_to_num(nan=1.0).flatten(2).amax(dim=-1)  # [B, H]
        if float(gap.max()) >= SEEN_FROM:
            b, h = divmod(int(gap.argmax()), gap.shape[1])
            return {"case": case.name, "of": of, "wrong": _rounded(bad[b, h]), "right": _rounded(good[b, h])}
    return None


def _rows_are_full(shown: dict[str, Any]) -> bool:
    """Say whether every row of the wrong matrix has numbers other than 0: the plainer drawing."""
    return all(any(cell not in {0.0, "nan"} for cell in row) for row in shown["wrong"])


def _rounded(matrix: Tensor) -> list[list[float | str]]:
    return [
        [round(x, 3) + 0.0 if math.isfinite(x) else str(x) for x in row] for row in matrix.double().tolist()
    ]


def _distance(T: int) -> Tensor:
    here = torch.arange(T, dtype=torch.float64)
    return (here[:, None] - here[None, :]).abs().expand(1, 1, T, T)


def _padding(B: int, T: int) -> Tensor:
    """[B, 1, 1, T] bool: sample b has b padded keys at the end."""
    return (torch.arange(T) < T - torch.arange(B)[:, None])[:, None, None]


def _rows_from(first: int, T: int) -> Tensor:
    """[1, 1, T, T] bool: queries before ``first`` may look nowhere, the others everywhere."""
    return (torch.arange(T) >= first)[:, None].expand(1, 1, T, T)


def _with_zeros(k: Tensor) -> Tensor:
    """Return the keys [1, 1, T, 4] with key 1 set to 0, so that every score against it is exactly 0."""
    k = k.clone()
    k[..., 1, :] = 0.0
    return k
