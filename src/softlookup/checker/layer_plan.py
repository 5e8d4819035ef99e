"""How a module with projections is called: one-hot tokens, and weights that make it a bare lookup."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.abilities import Probe
from softlookup.checker.calling import WEIGHT
from softlookup.checker.calls import Answer, Backward, Call, Value, Weight
from softlookup.checker.layouts import arrange, restore
from softlookup.checker.plan import LEAVE_OUT, Plan, cotangent_of
from softlookup.checker.projecting import shown_heads, split_heads
from softlookup.checker.remembering import ByIdentity
from softlookup.checker.results import leaves
from softlookup.checker.spelling import sizes_of
from softlookup.checker.wiring import Wiring, chosen_weights, mixing, picking, read_matrix, tokens_of
from softlookup.terms import Case

#: Inputs of a module by the role of the parameter.
_INPUTS = {"x": "x", "q": "x", "memory": "memory", "k": "memory", "v": "values"}

#: What an input is called in the record, before any projection.
_KINDS = {"x": "target", "q": "target", "memory": "memory", "k": "memory", "v": "memory"}


@dataclass(frozen=True)
class LayerPlan(Plan):
    """Everything needed to put a case to a module."""

    weights: tuple[Weight, ...] = field(default=(), repr=False)  # of the module
    cache_layout: str = "B H T d"  # of the keys and the values of earlier tokens

    @property
    def wiring(self) -> Wiring:
        """Where the projections are."""
        assert self.abilities.wiring is not None
        return self.abilities.wiring

    def spell(self, probe: Probe, *, record: bool = False) -> Call | None:
        """Write the call for a probe; None when the module has no way to be asked this."""
        case = probe.case
        try:
            outs = {
                "negated": lambda: -picking(self.wiring),
                "mixed": lambda: mixing(self.wiring),
                "zero": lambda: 0 * picking(self.wiring),
            }
            out = outs[probe.out]().to(case.q.dtype) if probe.out else None
            chosen = chosen_weights(case, out=out)
            call = super().spell(probe, record=record)
        except RuntimeError:  # more tokens than its inputs can tell apart, or no rectangle of pixels
            return None
        if call is None:
            return None
        before = super().spell(replace(probe, case=probe.after)) if probe.after is not None else None
        if before is not None:
            call = replace(call, earlier=((before.args, before.kwargs),))
        shapes = {weight.name: weight.shape for weight in self.weights}
        silent = {name: torch.zeros(shapes[name], dtype=case.q.dtype) for name in self.wiring.zeroed}
        silent |= {name: torch.ones(shapes[name], dtype=case.q.dtype) for name in self.wiring.opened}
        return replace(
            call,
            weights=silent | chosen,
            dtype=str(case.q.dtype).removeprefix("torch."),
            bypassed=self.wiring.bypassed + probe.bypassed,
            settings=dict(probe.settings),
        )

    def _value(self, role: str, name: str, probe: Probe) -> Value:
        case = probe.case
        if role == "cache" and case.past is not None:
            v = torch.nn.functional.pad(case.v, (0, self.wiring.d_v - case.v.shape[-1]))
            return tuple(arrange(x[:, :, : case.past], self.cache_layout) for x in (case.k, v))
        return super()._value(role, name, probe)

    def _input(self, role: str, case: Case) -> Value:
        if role == "residual":  # what the module adds to its output
            return _arrange(torch.zeros_like(tokens_of(case).x), self.layout)
        name = _INPUTS.get(role)
        if name is None:
            return LEAVE_OUT
        tokens: Tensor = getattr(tokens_of(case), name)
        layout = self.layout if name == "x" else self.layout_of("k")
        return _ARRANGED.get(tokens, lambda: _arrange(tokens, layout), layout)

    def _output(self, leaf: Tensor, case: Case) -> Tensor | None:
        """[B, H, T_q, shown]: an output in the canonical layout; None when the shape is another."""
        found = _restore(leaf, self.output_layout or self.layout, case, self.wiring.d_out)
        if found is None:
            return None
        if self.wiring.residual:
            found = found - tokens_of(case).x.to(found.dtype)
        return shown_heads(found, case)

    def whole_output(self, answer: Answer, case: Case) -> Tensor | None:
        """[B, T_q, d_out]: everything that the module returned for the tokens; None when it returned none."""
        if answer.failure is not None:
            return None
        layout = self.output_layout or self.layout
        found = (
            _restore(leaf, layout, case, self.wiring.d_out)
            for leaf in leaves(answer.result)
            if leaf.is_floating_point()
        )
        return next((whole for whole in found if whole is not None), None)

    def readings(self) -> list[Plan]:
        """Return the plan without and with the input added to the output."""
        can, wiring = self.abilities, self.wiring
        if wiring.d_out != wiring.widths[0]:
            return [self]
        return [
            self.but(abilities=replace(can, wiring=wiring.but(residual=added))) for added in (False, True)
        ]

    def backward(self, probe: Probe, call: Call) -> Backward:
        """Ask for the gradients of the tables that hold q, k and v."""
        wiring = self.wiring
        case = probe.case
        cotangent = cotangent_of(case)  # [B, H, T_q, shown]
        if wiring.heads_summed:  # what was returned once was read for each head
            cotangent = cotangent.sum(dim=1, keepdim=True)
        flat = cotangent.transpose(1, 2).flatten(2)  # [B, T_q, H * shown]
        whole = flat.new_zeros(*flat.shape[:2], wiring.d_out)
        whole[..., : flat.shape[-1]] = flat
        names = dict.fromkeys(slot.parameter for role in "qkv" for slot in getattr(wiring, role))
        laid_out = _arrange(whole, self.output_layout or self.layout)
        return Backward(self.output_path, laid_out, tuple(WEIGHT + name for name in names))

    def _gradients(self, probe: Probe, answer: Answer) -> dict[str, Tensor]:
        if not answer.gradients:
            return {}
        wiring, case = self.wiring, probe.case
        shapes = {weight.name: weight.shape for weight in self.weights}
        given = {}
        for key, gradient in answer.gradients.items():
            name = str(key).removeprefix(WEIGHT)
            given[name] = torch.zeros(shapes[name]) if gradient is None else gradient
        tokens = tokens_of(case)
        found = {}
        heads = {"q": wiring.num_heads, "k": wiring.num_kv_heads, "v": wiring.num_kv_heads}
        inputs = {"q": tokens.x, "k": tokens.memory, "v": tokens.values}
        for role, number in heads.items():
            table = read_matrix(getattr(wiring, role), given)  # [heads * d, width]
            codes = inputs[role].nan_to_num(0.0).to(table.dtype)
            found[role] = split_heads(codes @ table.T, number)
        found["v"] = found["v"][..., : wiring.shown]
        return found

    def _serials(self, answer: Answer) -> dict[int, str]:
        """Name what flows into the recorded calls: a table of queries is queries, a token is nothing yet."""
        roles: dict[str, set[str]] = {}
        for role in ("q", "k", "v"):
            for slot in getattr(self.wiring, role):
                roles.setdefault(slot.parameter, set()).add(role)
        names: dict[int, str] = {}
        for key, serial in answer.arguments.items():
            if not str(key).startswith(WEIGHT):
                role = self._argument_name(key)
                names[serial] = _KINDS.get(role, role)
                continue
            held = roles.get(str(key).removeprefix(WEIGHT), set())
            if held:
                names[serial] = held.pop() if len(held) == 1 else "qkv" if "q" in held else "kv"
        return names


_ARRANGED = ByIdentity()  # so that what is one input to the module stays one tensor


def _arrange(tokens: Tensor, layout: str) -> Tensor:
    """[B, T, d] -> the layout; "B d Y X" is an image of two rows, "1" an axis of one."""
    if "Y" in layout.split():
        flat, place = arrange(tokens[:, None], layout.replace("Y X", "T")), layout.split().index("Y")
        return torch.unflatten(flat, place, (2, -1))
    return arrange(tokens[:, None], layout.replace("1", "H"))


def _restore(leaf: Tensor, layout: str, case: Case, width: int) -> Tensor | None:
    """The layout -> [B, T_q, d_out]."""
    sizes: dict[str, Any] = {**sizes_of(case), "T": case.q.shape[2], "d": width, "H": 1}
    if "Y" in layout.split():
        if leaf.dim() != 4:
            return None
        place = layout.split().index("Y")
        leaf, layout = leaf.flatten(place, place + 1), layout.replace("Y X", "T")
    found = restore(leaf, layout.replace("1", "H"), sizes)
    return None if found is None else found[:, 0]
