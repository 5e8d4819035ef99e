"""The smallest input on which a target is still wrong, with its weights beside the right ones."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from softlookup.attention import STEPS
from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Target
from softlookup.checker.cases import keep_one_key
from softlookup.checker.evidence import Observation
from softlookup.checker.plan import Plan, ask
from softlookup.checker.spelling import sizes_of
from softlookup.terms import Case

_HEADS = ((1, 1), (1, 2), (2, 1), (2, 2), (1, 3), (2, 3), (1, 6), (2, 6), (4, 4))
_LENGTHS = (3, 4, 2, 5, 7, 1)
_VISIBLE_DIFFERENCE = 1e-3


def smallest(target: Target, plan: Plan, seen: Observation, *, fully: bool = False) -> dict[str, Any]:
    """Shrink a failing case while the failure stays; return it as JSON values for the report.

    The values are the identity where the target allows it, so that its output shows its weights.
    fully: the least elements of all; else three tokens, which show a pattern best, and the width as it was
    """
    cases = _candidates(plan, seen.case)
    if fully:
        cases = sorted((_narrow(case, d) for case in cases for d in (1, 2, 4, 99)), key=_elements)[:160]
    probes = [
        Probe(f"small {n}", case, integer_mask=seen.probe == "integer-mask") for n, case in enumerate(cases)
    ]
    for answer in ask(target, plan, probes):
        if answer.output is None:
            continue
        output, weights = STEPS(answer.case.double())
        rows = answer.real_rows
        difference = (answer.output.double() - output).abs()
        worst = difference[rows].nan_to_num(nan=float("inf"))
        if worst.numel() and float(worst.max()) > _VISIBLE_DIFFERENCE:
            return _describe(answer, output, weights) | {"probe": seen.probe}
    return {"case": _sizes(seen.case), "probe": seen.probe}


def _candidates(plan: Plan, case: Case) -> list[Case]:
    can, sizes = plan.abilities, sizes_of(case)
    group = sizes["H"] // sizes["H_kv"]
    found: list[Case] = []
    for T in _LENGTHS:
        for B, H in _HEADS:
            if sizes["B"] < B or sizes["H"] < H or H % group or min(sizes["T_q"], sizes["T_k"]) < T:
                continue
            if case.wiring is not None:  # its projections fix the heads
                H = sizes["H"]
            # Different lengths matter for the corner; elsewhere a square shows more.
            lengths = (
                [(T, T)] if sizes["T_q"] == sizes["T_k"] else [(T, T), (max(1, T - 1), T), (T, max(1, T - 1))]
            )
            for T_q, T_k in lengths if can.rectangular else [(T, T)]:
                found.append(_cut(plan, case, (B, H, T_q, T_k)))
    return found


def _narrow(case: Case, d: int) -> Case:
    """The first features of queries and keys; of values too where they have the same width."""
    if case.wiring is not None:  # its projections fix the widths
        return case
    v = case.v[..., :d] if case.v.shape[-1] == case.q.shape[-1] else case.v
    return case.but(q=case.q[..., :d].clone(), k=case.k[..., :d].clone(), v=v.clone())


def _elements(case: Case) -> int:
    return case.q.numel() + case.k.numel() + case.v.numel()


def _cut(plan: Plan, case: Case, sizes: tuple[int, int, int, int]) -> Case:
    """The first B samples, H heads, T_q queries and T_k keys of a case, with the identity as values."""
    B, H, T_q, T_k = sizes
    H_kv = H * case.k.shape[1] // case.q.shape[1]
    own_width = plan.abilities.own_value_width
    d = case.q.shape[-1] if own_width or case.wiring is not None else min(case.q.shape[-1], T_k)
    q = case.q[:B, :H, :T_q, :d].clone()
    k = case.k[:B, :H_kv, :T_k, :d].clone()
    features = case.wiring.shown if case.wiring is not None else T_k if own_width else d
    identity = torch.eye(T_k, features, dtype=q.dtype)
    v = identity.expand(B, H_kv, T_k, -1).clone()
    if plan.abilities.one_source:
        k, v = q.clone(), q.clone()
    documents = None if case.document_ids is None else case.document_ids[:B, :T_k]
    small = case.but(q=q, k=k, v=v, document_ids=documents)
    if case.additive_bias is not None:
        small = small.but(additive_bias=_slice(case.additive_bias, sizes))
    if case.allowed_mask is not None:
        mask = _slice(case.allowed_mask, sizes)
        if bool(mask.all()) and T_k > 1:
            mask[..., -1] = False  # something must be hidden for the mask to matter
        small = small.but(allowed_mask=keep_one_key(small.but(allowed_mask=mask), mask))
    return small


def _slice(tensor: Tensor, sizes: tuple[int, int, int, int]) -> Tensor:
    """The first samples, heads, queries and keys of a mask or a bias."""
    B, H, T_q, T_k = sizes
    return tensor[:B, :H, :T_q, :T_k].clone()


def _sizes(case: Case) -> str:
    return " ".join(
        f"{name}={size}" for name, size in sizes_of(case).items() if name != "H_kv" or size != case.q.shape[1]
    )


def _describe(seen: Observation, output: Tensor, weights: Tensor) -> dict[str, Any]:
    case = seen.case
    assert seen.output is not None
    shown = int((seen.output.double() - output).abs().nan_to_num(nan=9e9).amax(dim=(2, 3)).argmax())
    b, h = divmod(shown, case.q.shape[1])
    identity = torch.equal(
        case.v, torch.eye(case.v.shape[2], case.v.shape[3]).to(case.v.dtype).expand(case.v.shape)
    )
    allowed = STEPS.visible(case)
    facts: dict[str, Any] = {"case": _sizes(case), "probe": seen.probe}
    if case.q.shape[0] * case.q.shape[1] > 1:
        facts["shown"] = f"sample {b}, head {h}"
    if identity:
        facts["weights"] = {
            "yours": _rows(seen.output[b, h][:, : case.k.shape[2]]),
            "right": _rows(weights[b, h]),
        }
    else:
        facts["output"] = {"yours": _rows(seen.output[b, h]), "right": _rows(output[b, h])}
    if allowed is not None:
        facts["allowed"] = allowed.expand(weights.shape)[b, h].int().tolist()
    facts["largest_error"] = _number(float((seen.output.double() - output)[seen.real_rows].abs().max()))
    return facts


def _rows(matrix: Tensor) -> list[list[float | None]]:
    """Rounded rows; NaN and infinity are not JSON and become None."""
    return [[_number(x) for x in row] for row in matrix.double().tolist()]


def _number(x: float) -> float | None:
    return round(x, 4) if abs(x) < float("inf") else None
