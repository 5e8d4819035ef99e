"""How one target is called: a canonical case becomes a call, and the answer becomes an observation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.abilities import Abilities, Probe
from softlookup.checker.calls import Answer, Backward, Call, Parameter, Target, Value
from softlookup.checker.evidence import Observation
from softlookup.checker.layouts import arrange, arrange_mask, axes_of, read_weights, restore
from softlookup.checker.plain_values import values_by_role
from softlookup.checker.results import leaves, path_of
from softlookup.checker.spelling import MaskSpelling, sizes_of
from softlookup.terms import Case, Contract


@dataclass(frozen=True)
class Plan:
    """Everything needed to put a case to a target."""

    parameters: tuple[Parameter, ...]
    roles: dict[str, str]  # parameter -> role; only these are passed
    layout: str = "B H T d"
    key_layout: str | None = None  # when it differs from layout
    value_layout: str | None = None  # when it differs from layout
    packed_layout: str | None = None
    output_layout: str | None = None  # when it differs from layout
    mask: MaskSpelling | None = None
    mask_required: bool = False
    target_mask: MaskSpelling | None = None  # of the queries' own tokens, beside a memory
    scale_always: bool = False  # the scale may be left out, but then the target fails
    window_counts: str = "keys"
    abilities: Abilities = field(default_factory=Abilities)
    contract: Contract = field(default_factory=Contract)
    left_out: tuple[tuple[str, str], ...] = ()  # arguments that could not be given, and why
    output_path: tuple[int | str, ...] = ()  # where the output sits in the result
    flags: dict[str, Value] = field(default_factory=dict)  # optional switches passed as they are

    def but(self, **changes: Any) -> Plan:
        """Return the plan with some fields changed."""
        return replace(self, **changes)

    def spell(self, probe: Probe, *, record: bool = False) -> Call | None:
        """Write the call for a probe; None when the target has no way to be asked this."""
        values: dict[str, Value] = {**self.flags, **dict(probe.arguments)}
        for name, role in self.roles.items():
            if name in values:
                continue
            try:
                value = self._value(role, name, probe)
            except _CannotSayError:
                return None
            if value is not LEAVE_OUT:
                values[name] = value
        args: list[Value] = []
        kwargs: dict[str, Value] = {}
        for parameter in self.parameters:
            if parameter.name not in values:
                if parameter.required and parameter.kind not in {"*args", "**kwargs"}:
                    return None
                continue
            required = parameter.required and parameter.kind in {"positional-only", "positional"}
            if required and not kwargs:
                args.append(values[parameter.name])
            else:
                kwargs[parameter.name] = values[parameter.name]
        return Call(
            tuple(args),
            kwargs,
            record=record,
            strided=probe.strided,
            training=probe.training,
            seed=probe.seed,
        )

    def _value(self, role: str, name: str, probe: Probe) -> Value:
        case = probe.case
        required = any(p.name == name and p.required for p in self.parameters)
        given = self._input(role, case)
        if given is not LEAVE_OUT:
            return given
        if role in {"unused", "cache"}:
            return None if required else LEAVE_OUT
        if role == "target_mask":
            return self._target_mask_value(required, case)
        if role in {"mask", "lengths"}:
            return self._mask_value(name, required, probe)
        if role == "bias":
            return self._bias_value(case) if required or case.additive_bias is not None else LEAVE_OUT
        if role == "window":
            return self._window_value(name, required, case)
        if role == "documents":
            return self._document_value(case) if required or case.document_ids is not None else LEAVE_OUT
        if role in {"dropout", "block", "temperature"} and not required:
            return LEAVE_OUT
        if role == "scale" and case.scale is None and not (required or self.scale_always):
            return LEAVE_OUT
        if role == "scale" and case.scale is None:
            return 1 / math.sqrt(case.q.shape[-1])
        return values_by_role(name, case).get(role, LEAVE_OUT)

    def _input(self, role: str, case: Case) -> Value:
        """Return what is looked up with, in the layout of the target; LEAVE_OUT for every other role."""
        if role in {"q", "x"}:
            return arrange(case.q, self.layout, case.k.shape[1])
        if role in {"k", "v"}:
            return arrange(case.k if role == "k" else case.v, self.layout_of(role))
        return self._packed(case) if role == "qkv" else LEAVE_OUT

    def _mask_value(self, name: str, required: bool, probe: Probe) -> Value:
        spelling, case = self.mask, probe.case
        if "bias" in self.roles.values():  # the bias goes there, and not into an additive mask as well
            case = case.but(additive_bias=None)
        if spelling is None or name != spelling.parameter:
            return None if required else LEAVE_OUT
        biased = spelling.kind == "additive" and case.additive_bias is not None
        if case.allowed_mask is None and not biased and not self.mask_required:
            return LEAVE_OUT
        mask = spelling.write(case, as_integers=probe.integer_mask)
        if mask is None:
            raise _CannotSayError
        return mask

    def _target_mask_value(self, required: bool, case: Case) -> Value:
        spelling = self.target_mask
        # A function's masks may count only together.
        beside = self.abilities.wiring is None and case.allowed_mask is not None
        if spelling is None or not (required or beside or case.target_mask is not None):
            return None if required else LEAVE_OUT
        tokens = None if case.target_mask is None else case.target_mask[:, None, None]
        # It is spelled as a mask of keys would be that are the target's own tokens.
        return spelling.write(case.but(k=case.q, v=case.q, allowed_mask=tokens, additive_bias=None))

    def _bias_value(self, case: Case) -> Tensor | None:
        none = torch.zeros(1, 1, 1, 1, dtype=case.q.dtype)
        bias = none if case.additive_bias is None else case.additive_bias
        axes = ("1", "1", "T_q", "T_k") if len(axes_of(self.layout)) == 4 else ("T_q", "T_k")
        return arrange_mask(bias.expand(1, 1, case.q.shape[-2], case.k.shape[-2]), axes, sizes_of(case))

    def _window_value(self, name: str, required: bool, case: Case) -> Value:
        if case.window is not None and self.abilities.fixed_window is None:
            return case.window if self.window_counts == "keys" else case.window - 1
        everything = case.q.shape[-2] + case.k.shape[-2]
        return everything if required or self._default_is_number(name) else LEAVE_OUT

    def _document_value(self, case: Case) -> Tensor:
        ids = case.document_ids
        if ids is None:
            ids = torch.zeros(case.q.shape[0], case.k.shape[-2], dtype=torch.long)
        return ids if self.abilities.batch else ids[0]

    def _default_is_number(self, name: str) -> bool:
        """A window with a number as default hides keys even when nobody asks."""
        default = next((p.default for p in self.parameters if p.name == name), "")
        return default.isdigit() and default != "0"

    def layout_of(self, name: str) -> str:
        """The layout of q, k or v."""
        own = {"k": self.key_layout, "v": self.value_layout}.get(name)
        if own:
            return own
        return self.layout if name == "q" else self.layout.replace("H_kv G", "H")

    def _packed(self, case: Case) -> Tensor:
        """Stack q, k and v along the axis "3" of the packed layout."""
        layout = self.packed_layout or "B T 3 H d"
        if case.q.shape != case.k.shape or case.v.shape != case.k.shape:
            raise _CannotSayError
        axes = layout.split()
        plain = " ".join(axis for axis in axes if axis != "3")
        stacked = torch.stack([arrange(t, plain) for t in (case.q, case.k, case.v)], dim=axes.index("3"))
        return stacked.contiguous()

    def read(self, probe: Probe, answer: Answer) -> Observation:
        """Turn an answer into an observation in the canonical layout."""
        case = probe.case
        seen = Observation(
            probe.name,
            case,
            failure=answer.failure,
            recorded=answer.recorded,
            compared=probe.compared,
            asked=probe,
        )
        if answer.failure is not None:
            return seen
        sizes = sizes_of(case)
        output = weights = None
        for leaf in leaves(answer.result):
            found = self._output(leaf, case) if output is None and leaf.is_floating_point() else None
            if found is not None:
                output = found
            elif weights is None:
                weights = read_weights(leaf, sizes)
        changed = tuple(sorted({self._argument_name(key) for key in answer.changed}))
        gradients = self._gradients(probe, answer)
        return replace(
            seen,
            output=output,
            weights=weights[0] if weights else None,
            changed=changed,
            gradients=gradients,
            serials=self._serials(answer),
            cotangent=cotangent_of(case) if probe.backward else None,
        )

    def _output(self, leaf: Tensor, case: Case) -> Tensor | None:
        """[B, H, T_q, d_v]: an output in the canonical layout; None when the shape is another."""
        sizes = {**sizes_of(case), "T": case.q.shape[-2], "d": case.v.shape[-1]}
        return restore(leaf, self.output_layout or self.layout, sizes)

    def readings(self) -> list[Plan]:
        """Return the plan with every layout in which its output may come back: heads last, folded."""
        others = {
            "B H T d": ("B T H d", "B T (H d)"),
            "B T H d": ("B H T d", "B T (H d)"),
            "H T d": ("T H d", "T (H d)"),
        }
        return [self.but(output_layout=layout) for layout in (None, *others.get(self.layout, ()))]

    def shows(self, result: Value, case: Case) -> Plan:
        """Return the plan with the place where the output sits in a result."""
        found = [leaf for leaf in leaves(result) if leaf.is_floating_point()]
        output = next((leaf for leaf in found if self._output(leaf, case) is not None), None)
        path = None if output is None else path_of(result, output)
        return self.but(output_path=path or ())

    def _serials(self, answer: Answer) -> dict[int, str]:
        return {serial: self._argument_name(key) for key, serial in answer.arguments.items()}

    def backward(self, probe: Probe, call: Call) -> Backward:
        """Ask for the gradients of q, k and v."""
        positional = [p.name for p in self.parameters if p.required]
        names: dict[int | str, str] = {
            **dict(enumerate(positional[: len(call.args)])),
            **{name: name for name in call.kwargs},
        }
        wrt = tuple(key for key, name in names.items() if self.roles.get(name) in {"q", "k", "v"})
        layout, cotangent = self.output_layout or self.layout, cotangent_of(probe.case)
        return Backward(self.output_path, arrange(cotangent, layout, probe.case.k.shape[1]), wrt)

    def _argument_name(self, key: int | str) -> str:
        positional = [p.name for p in self.parameters if p.required]
        name = positional[key] if isinstance(key, int) and key < len(positional) else str(key)
        return {"lengths": "mask", "x": "q"}.get(self.roles.get(name, name), self.roles.get(name, name))

    def _gradients(self, probe: Probe, answer: Answer) -> dict[str, Tensor]:
        case, found = probe.case, {}
        for key, gradient in answer.gradients.items():
            name = self._argument_name(key)
            source = {"q": case.q, "k": case.k, "v": case.v}.get(name)
            if source is None:
                continue
            layout = self.layout_of(name)
            sizes = {"B": source.shape[0], "H": source.shape[1], "T": source.shape[2], "d": source.shape[3]}
            tensor = (
                gradient
                if gradient is not None
                else torch.zeros_like(arrange(source, layout, case.k.shape[1]))
            )
            back = restore(tensor, layout, sizes)
            if back is not None:
                found[name] = back
        return found


class _CannotSayError(Exception):
    """The target has no way to be told this."""


LEAVE_OUT = object()


def cotangent_of(case: Case) -> Tensor:
    """[B, H, T_q, d_v]: fixed random factors of the output, to ask for gradients with."""
    shape = (*case.q.shape[:3], case.v.shape[-1])
    return torch.randn(shape, generator=torch.Generator().manual_seed(99), dtype=torch.float64).to(
        case.q.dtype
    )


def ask(target: Target, plan: Plan, probes: Sequence[Probe], *, record: bool = False) -> list[Observation]:
    """Put probes to a target in one batch. Probes that it cannot be asked are left out."""
    pairs = [(probe, plan.spell(probe, record=record)) for probe in probes]
    asked = [(probe, call) for probe, call in pairs if call is not None]
    asked = [
        (probe, replace(call, backward=plan.backward(probe, call)) if probe.backward else call)
        for probe, call in asked
    ]
    answers = target.perform([call for _, call in asked])
    return [plan.read(probe, answer) for (probe, _), answer in zip(asked, answers, strict=True)]
