"""Which name does every wrong step get, and which rules give the same answers? Used by write_confusion.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from softlookup import catalog
from softlookup.catalog import Entry
from softlookup.checker.adapt import Adapter
from softlookup.checker.diagnose import declared, examine
from softlookup.checker.evidence import Evidence, Observation
from softlookup.checker.hypotheses import REFERENCE, Hypothesis, hypotheses_of
from softlookup.checker.probes import suite
from softlookup.checker.target import LocalTarget
from softlookup.terms import Case, Contract

#: What the mutants of these rules do is a convention, until the contract promises otherwise.
PROMISES = {
    "weights-averaged": Contract(weights="per head"),
    "empty-row-nan": Contract(empty_rows="zero"),
    "empty-row-uniform": Contract(empty_rows="zero"),
    "hidden-nan-leaks": Contract(hidden_nan="isolated"),
    "mask-overflows-half": Contract(half=True),
}
#: bfloat16 has the range of float32, so this bug shows in float16 only.
HALF = {"mask-overflows-half": "float16"}
_NOTHING_SEEN = Evidence(Contract(), ())
_WORDS = """Look up softly.

q: [B, H, T_q, d]   k: [B, H, T_k, d]   v: [B, H, T_k, d]
allowed_mask: [B, 1, T_q, T_k] {values}, True = may attend
"""
_MORE_WORDS = """is_causal: hide later keys; the last query stands at the last key (bottom-right)
window: how many keys a query sees, itself included
"""


@dataclass(frozen=True)
class Mutant:
    """One wrong step in one of its shapes, or the whole wrong function of a rule that judges."""

    entry: Entry
    shape: str
    function: Callable[..., Any]
    hypothesis: Hypothesis | None = None

    @property
    def label(self) -> str:
        """The rule's name, and which shape of it when there are several."""
        return f"{self.entry.name} {self.shape}".strip()


def mutants() -> Iterator[Mutant]:
    """Yield every rule in every shape, in the order of the codes."""
    for entry in catalog.rules():
        wrong = list(hypotheses_of(entry, _NOTHING_SEEN))
        for hypothesis in wrong:
            shape = f"({hypothesis.variant})" if len(wrong) > 1 else ""
            yield Mutant(entry, shape, with_every_argument(hypothesis), hypothesis)
        if not wrong and hasattr(entry.load(), "mutant"):
            yield Mutant(entry, "", with_a_mask(entry.load().mutant(), "bitwise" in entry.name))


def with_every_argument(run: Callable[[Case], Tensor]) -> Callable[..., Tensor]:
    """Return the lookup as a function that can be asked for everything that a rule may break."""

    def attend(
        q,
        k,
        v,
        allowed_mask=None,
        attn_bias=None,
        is_causal=False,
        window=None,
        document_ids=None,
        scale=None,
    ):  # type: ignore[no-untyped-def]
        causal = "bottom-right" if is_causal else None
        return run(Case(q, k, v, allowed_mask, attn_bias, causal, window, False, document_ids, scale))

    attend.__doc__ = _WORDS.format(values="bool") + _MORE_WORDS
    return attend


def with_a_mask(wrong: Callable[..., Any], integers: bool) -> Callable[..., Any]:
    """Return a rule's own wrong function with words about its mask."""

    def attend(q, k, v, allowed_mask=None, is_causal=False):  # type: ignore[no-untyped-def]
        return wrong(q, k, v, allowed_mask, is_causal)

    attend.__doc__ = _WORDS.format(values="bool or int (0 or 1)" if integers else "bool")
    return attend


def names_of(mutant: Mutant, dtype: str | None) -> tuple[str, ...]:
    """Return what the checker calls this mutant; empty is clean."""
    promised = PROMISES.get(mutant.entry.name, Contract())
    contract = declared(promised if dtype is None else _in_dtype(promised, dtype))
    return tuple(examine(LocalTarget(mutant.function, mutant.entry.name), contract).named())


def _in_dtype(contract: Contract, dtype: str) -> Contract:
    given = {name: getattr(contract, name) for name in contract.__dataclass_fields__ if name != "declared"}
    return Contract(**{**given, "dtype": dtype})


def alike() -> list[list[str]]:
    """Return groups of mutants of different rules that answer every compared probe alike.

    "no bug" stands for the reference: who is in its group gives no wrong value that these probes show.
    """
    reference = LocalTarget(with_every_argument(REFERENCE))
    (plan, *_) = Adapter(reference, declared(Contract())).plans()
    asked = [probe.case for probe in suite(plan.abilities, torch.float64) if probe.compared]
    known = [("no bug", "", _answers(REFERENCE, asked))]
    known += [(m.entry.name, m.label, _answers(m.hypothesis, asked)) for m in mutants() if m.hypothesis]
    groups: list[list[tuple[str, str, list[Tensor | None]]]] = []
    for one in known:
        home = next((group for group in groups if _same(group[0][2], one[2])), None)
        groups.append([one]) if home is None else home.append(one)
    several = [group for group in groups if len({rule for rule, _, _ in group}) > 1]
    return [[label or rule for rule, label, _ in group] for group in several]


def _answers(hypothesis: Hypothesis, cases: list[Case]) -> list[Tensor | None]:
    """The rows that may look somewhere; None where the lookup cannot run."""
    found: list[Tensor | None] = []
    for case in cases:
        try:
            output = hypothesis(case)
        except (RuntimeError, IndexError, ValueError):
            found.append(None)
            continue
        rows = Observation("", case).real_rows
        found.append(output[rows] if output.shape[:-1] == rows.shape else output)
    return found


def _same(some: list[Tensor | None], others: list[Tensor | None]) -> bool:
    """Alike as far as float32 could show it."""
    return all(
        a is b or (a is not None and b is not None and a.shape == b.shape and _close(a, b))
        for a, b in zip(some, others, strict=True)
    )


def _close(a: Tensor, b: Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True)
