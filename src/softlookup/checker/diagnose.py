"""Name the bug: the hypothesis whose wrong answers match the target's wrong answers.

No bug first, then each rule, then pairs. What nothing explains is reported as SL000 with the smallest input
that shows it, never guessed at. What is no wrong forward value (gradients, precision, conduct) is judged by
the rules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import torch

from softlookup.checker.adapt import Adapter
from softlookup.checker.behaviour import (
    computed_weights,
    doubt_about,
    examine_behaviour,
    follows_another,
    guesses_roles,
    reason_of,
)
from softlookup.checker.calls import Target
from softlookup.checker.constructing import instance_of
from softlookup.checker.evidence import Observation, same
from softlookup.checker.explaining import Explanation, Look, explain_forward, look_at
from softlookup.checker.find_way import NoWayError
from softlookup.checker.findings import FindingWriter
from softlookup.checker.hypotheses import known_variants, singles
from softlookup.checker.inner_norms import explain_without_norms
from softlookup.checker.refusing import not_callable
from softlookup.checker.target import LocalTarget
from softlookup.checker.trying import CannotAdaptError
from softlookup.terms import Contract, Diagnosis, verdict_of

#: How many ways of calling are examined where some weights have no known role.
_IN_DOUBT = 3


def check(
    implementation: Callable[..., Any],
    contract: Contract | None = None,
    *,
    init: dict[str, Any] | None = None,
) -> Diagnosis:
    """Check attention in this process: a function, a module, or a class of modules.

    implementation: a callable that takes queries, keys and values (and perhaps a mask, a causal flag, a
        scale ...), or a module that makes them from its input; how it is called is found out by trying
    contract: what it promises where its names and docstrings do not say so
    init: arguments of a class's constructor; the others are filled in from their names

    Returns: the inferred contract, findings with lines, and notes. The callable and its tensors are left as
        they are.

    Raises: SoftlookupError when the implementation is not callable, or a class cannot be built.

    >>> import softlookup, torch
    >>> def attend(q, k, v):
    ...     return (q @ k.transpose(-2, -1)).softmax(-1) @ v
    >>> softlookup.check(attend).named()
    ['scale-missing']
    """
    if inspect.isclass(implementation):
        implementation = instance_of(implementation, init or {})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are tiny: more threads only wait for each other
    try:
        return examine(LocalTarget(implementation), declared(contract))
    finally:
        torch.set_num_threads(threads)


def declared(contract: Contract | None) -> Contract:
    """Mark every field that is set as declared."""
    if contract is None:
        return Contract()
    names = {n for n in contract.__dataclass_fields__ if n != "declared" and getattr(contract, n) is not None}
    return replace(contract, declared=frozenset(names) | contract.declared)


def examine(target: Target, contract: Contract) -> Diagnosis:
    """Examine one target under what is declared about it."""
    found: list[Diagnosis] = []
    for way in Adapter(target, contract).ways():
        found.append(_examine_in(target, way))
        if found[-1].verdict in {"named", "unrecognised"}:
            return found[-1]
    ran = [one for one in found if one.verdict != "not-callable"] or found[:1]
    refused = {f.summary: f for one in found if one.verdict == "not-callable" for f in one.findings}
    if ran[0].verdict == "not-callable":
        return ran[0]
    return replace(ran[0], notes=(*ran[0].notes, *refused.values()))


def _examine_in(target: Target, adapter: Adapter) -> Diagnosis:
    """Examine a target in one of the layouts that it promises."""
    sketch = target.sketch
    if computed := computed_weights(sketch):
        return _by_behaviour(target, adapter, computed)
    try:
        plans = adapter.plans()
    except CannotAdaptError as problem:
        if not sketch.has_weights:
            return _not_run(target, adapter.declared, str(problem), problem.line)
        return _by_behaviour(target, adapter, reason_of(problem))
    wiring = plans[0].abilities.wiring
    doubt = doubt_about(sketch, wiring) if wiring is not None else ""
    looks = [look_at(target, plan) for plan in (plans[:_IN_DOUBT] if doubt else plans)]
    if doubt and not _explained_by_one(target, looks, adapter.reading.words):
        return _by_behaviour(target, adapter, doubt)
    best = explain_forward(target, looks, adapter.reading.words)
    if best.hypothesis is None:
        best = explain_without_norms(target, looks, adapter.reading.words) or best
    findings, notes = FindingWriter(target, best).write()
    if sketch.has_weights and any(finding.code == "SL000" for finding in findings):
        why = "nothing explains what its projections and lookup give."
        seen = _by_behaviour(target, adapter, why)
        guessed = wiring is not None and guesses_roles(sketch, wiring)
        if seen.verdict == "named" or (seen.verdict != "not-callable" and (guessed or follows_another(seen))):
            return seen
    contract = _measured(best)
    return Diagnosis(
        sketch.name,
        _kind(target, contract),
        sketch.file,
        sketch.line,
        contract,
        verdict_of(findings),
        tuple(findings),
        tuple(notes),
    )


def _by_behaviour(target: Target, adapter: Adapter, why: str) -> Diagnosis:
    """Examine a module whose projections are unknown."""
    try:
        return examine_behaviour(target, adapter.reading, adapter.declared, why)
    except NoWayError as problem:
        return _not_run(target, adapter.declared, str(problem), problem.line)


def _explained_by_one(target: Target, looks: list[Look], words: str) -> bool:
    """Say whether nothing, one known variant or one rule explains every answer.

    More is not tried where weights without a role in the wiring may make the difference as well.
    """
    source = target.sketch.source or words
    return any(
        not look.failing
        or look.fitting([*known_variants(look.evidence, words, source), *singles(look.evidence)])
        for look in looks
    )


def _not_run(target: Target, contract: Contract, reason: str, line: int | None = None) -> Diagnosis:
    """Report a target that could not be run."""
    sketch = target.sketch
    finding = not_callable(reason, line or sketch.line)
    return Diagnosis(
        sketch.name, _kind(target, contract), sketch.file, sketch.line, contract, "not-callable", (finding,)
    )


def _kind(target: Target, contract: Contract) -> Literal["function", "module", "cross"]:
    if target.sketch.kind == "function":
        return "function"
    return "cross" if "memory" in (contract.arguments or "") else "module"


def _measured(explanation: Explanation) -> Contract:
    """Complete the contract by what was seen."""
    evidence, contract = explanation.evidence, explanation.plan.contract
    first = next((s for s in evidence.observations if s.output is not None), None)
    returns = "output" if first is None or first.weights is None else "output, weights"
    if first is not None and first.weights is not None and explanation.plan.output_path == (1,):
        returns = "weights, output"
    if explanation.plan.output_path and isinstance(explanation.plan.output_path[0], str):
        returns = "dict"
    contract = replace(contract, returns=returns)
    empty = evidence.probe("empty-row")
    if contract.empty_rows is None and empty is not None:
        contract = replace(contract, empty_rows=_empty_rows(empty))
    return contract


def _empty_rows(seen: Observation) -> Any:
    """What rows with no key return."""
    if seen.failure is not None:
        return "raises"
    if seen.output is None:
        return None
    rows = seen.output[~seen.real_rows]
    if not rows.numel():
        return None
    if rows.isnan().any():
        return "nan"
    if not rows.any():
        return "zero"
    every = seen.case.v.mean(dim=-2).repeat_interleave(seen.case.q.shape[1] // seen.case.v.shape[1], dim=1)
    average = every[:, :, None].expand(seen.output.shape)[~seen.real_rows]
    return "uniform" if same(rows, average) else None
