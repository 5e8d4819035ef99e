"""The last question to a module: with its own weights, is it the recipe that explained it?

Chosen weights show the lookup. The module's own show the rest: biases, and lengths that one-hot tokens cannot
reach. Biases that are all 0, as they are made, get numbers first, or nobody would see where they go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from softlookup.checker.abilities import Probe
from softlookup.checker.calls import Target
from softlookup.checker.evidence import Explained, Observation, same
from softlookup.checker.layer_plan import LayerPlan
from softlookup.checker.projecting import merge_heads, split_heads
from softlookup.checker.weight_names import bias_of
from softlookup.checker.wiring import Slot, Tokens, read_matrix, remember
from softlookup.terms import Case

_LONG, _TOO_LONG = 37, 64


@dataclass(frozen=True)
class Own:
    """A module's own weights, as far as the recipe knows them."""

    plan: LayerPlan
    weights: dict[str, Tensor]
    biases: dict[str, str]  # parameter of a projection -> its bias

    def projection(self, role: str) -> tuple[Tensor, Tensor]:
        """Return the matrix [heads * d, width] and the bias [heads * d] of q, k or v, in float64."""
        slots: tuple[Slot, ...] = getattr(self.plan.wiring, role)
        matrix = read_matrix(slots, self.weights).double()
        bias = matrix.new_zeros(len(matrix))
        for slot in slots:
            if slot.parameter in self.biases:
                given = self.weights[self.biases[slot.parameter]].double().flatten()
                bias[list(slot.places)] = given[list(slot.outputs)]
        return matrix, bias

    def output(self, context: Tensor) -> Tensor:
        """[B, H, T_q, d_v] -> [B, T_q, d_out]: merged and through the output projection, if any."""
        merged = merge_heads(context)
        out = self.plan.wiring.out
        if not out:
            return merged
        matrix = read_matrix(out, self.weights).double()  # [H * d_v, d_out]
        bias = self.biases.get(out[0].parameter)
        return merged @ matrix + (self.weights[bias].double().flatten() if bias else 0.0)


def unlike_its_recipe(target: Target, plan: LayerPlan, steps: Explained) -> dict[str, object] | None:
    """Return what differs from the recipe once the module has its own weights; None when nothing does.

    None also where a weight has no place in the recipe: then a difference means nothing.
    """
    own = _own(target, plan)
    if own is None:
        return None
    for name, case, tokens in _cases(own):
        remember(case, tokens)
        call = plan.spell(Probe(name, case))
        if call is None:
            continue
        (answer,) = target.perform([replace(call, weights=own.weights)])
        seen = plan.whole_output(answer, case)
        if seen is None:  # it may refuse this length
            continue
        heads = case.double().but(wiring=None)
        expected = own.output(steps(heads)[0])
        if plan.wiring.residual:
            expected = expected + tokens.x.double()
        if (allowed := steps.sees(heads)) is not None:  # what looks nowhere returns what it likes
            real = allowed.any(dim=-1).expand(heads.q.shape[:-1]).all(dim=1)  # [B, T_q]
            seen, expected = seen.where(real[..., None], 0), expected.where(real[..., None], 0)
        if (padding := Observation(name, case, seen[:, None]).cleared) is not None:
            expected = expected.masked_fill(padding[:, 0, :, None], 0)
        if not same(seen, expected.to(seen.dtype)):
            error = float((seen.double() - expected).abs().max())
            return {"asked": name, "tokens": case.q.shape[2], "largest_error": round(error, 4)}
    return None


def _own(target: Target, plan: LayerPlan) -> Own | None:
    weights = {name: w for name, w in target.own_weights().items() if w.is_floating_point()}
    wiring = plan.wiring
    slots = (*wiring.q, *wiring.k, *wiring.v, *wiring.out)
    biases = {slot.parameter: bias for slot in slots if (bias := bias_of(slot.parameter, weights))}
    known = {slot.parameter for slot in slots} | set(biases.values())
    trained = {weight.name for weight in plan.weights if weight.trained}
    normalised = tuple(f"{part}." for part in wiring.bypassed)
    strange = [n for n in trained - known if not n.startswith(normalised) and "norm" not in n.lower()]
    if strange or wiring.heads_summed:
        return None
    weights |= {name: torch.ones_like(weights[name]) for name in wiring.opened}  # as the recipe was found
    random = torch.Generator().manual_seed(23)
    for bias in set(biases.values()):
        if not weights[bias].any():
            drawn = torch.randn(weights[bias].shape, generator=random) / 4
            weights[bias] = drawn.to(weights[bias].dtype)
    return Own(plan, weights, biases)


def _cases(own: Own) -> Iterator[tuple[str, Case, Tokens]]:
    """Yield short inputs without and with a mask, and one as long as the tables of the module."""
    can = own.plan.abilities
    longest = can.longest if can.longest is not None and can.longest <= _TOO_LONG else _LONG
    for name, B, T in (
        ("own weights", 2, 6),
        ("own weights, masked", 2, 6),
        ("own weights, long", 1, longest),
    ):
        if B > 1 and not can.batch:
            B = 1
        T_q, T_k = (T, T) if not can.rectangular else (T, T + 2)
        if can.grid and T % 2:
            T_q, T_k = T - 1, T - 1
        case, tokens = _case(own, B, T_q, T_k)
        if can.mask_always or name.endswith("masked"):
            if not can.mask_axes:
                continue
            allowed = torch.ones(
                B if "B" in can.mask_axes else 1, 1, T_q if "T_q" in can.mask_axes else 1, T_k
            )
            if name.endswith("masked"):
                allowed[..., 2] = 0
            causal = None if can.causal_unless_masked else case.causal
            case = case.but(allowed_mask=allowed.bool(), causal=causal)
        yield name, case, tokens


def _case(own: Own, B: int, T_q: int, T_k: int) -> tuple[Case, Tokens]:
    wiring, can = own.plan.wiring, own.plan.abilities
    random = torch.Generator().manual_seed(29)
    dtype = next(iter(own.weights.values())).dtype
    x, memory, values = (
        torch.randn(B, T, width, generator=random, dtype=torch.float64).to(dtype)
        for T, width in zip((T_q, T_k, T_k), wiring.widths, strict=True)
    )
    if wiring.source == "self":
        memory = values = x
    elif wiring.source == "cross":
        values = memory
    tables, heads = {}, []
    for role, given, number in zip(
        "qkv", (x, memory, values), (wiring.num_heads, *[wiring.num_kv_heads] * 2), strict=True
    ):
        tables[role], bias = own.projection(role)
        heads.append(split_heads(given.double() @ tables[role].T + bias, number))
    q, k, v = heads
    case = Case(
        q,
        k,
        v,
        causal=can.corner if can.always_causal else None,
        window=can.fixed_window,
        window_ahead=can.fixed_window is not None and can.window_ahead,
        scale=can.fixed_scale,
        wiring=wiring,
    )
    return case, Tokens(x, memory, values, {role: table.to(dtype) for role, table in tables.items()})
