"""What one call of a module shows, and in which respect two modules can be told apart."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from types import ModuleType

import torch
from driving import load
from module_asks import asks, hidden_nan
from module_calls import Ask
from module_driving import STYLES, Style
from module_plain import allowed_of
from patching import MODULES
from torch import Tensor, nn

#: What a call may raise when a bug makes shapes or dtypes unfit.
FAILURES = (RuntimeError, IndexError, ValueError, TypeError)


@dataclass(frozen=True)
class Seen:
    """Outputs of every path, weights, gradients by name, whether an input was changed; or how it failed."""

    outputs: tuple[Tensor, ...] = ()
    weights: Tensor | None = None
    gradients: dict[str, Tensor] | None = None
    changed: bool = False
    failure: str = ""


def observe(
    style: Style, module: ModuleType, ask: Ask, *, strided: bool = False, backward: bool = False
) -> Seen:
    """Call a fresh layer in eval mode, and if wanted its backward pass."""
    ask, before = copied(ask, strided), copied(ask)
    layer = style.build(module, ask)
    try:
        outputs, weights = style.call(layer, ask)
        changed = not all(_equal(getattr(ask, name), getattr(before, name)) for name in TENSORS)
        found = gradients(style, layer, copied(before, strided)) if backward else None
    except FAILURES as error:
        return Seen(failure=type(error).__name__)
    return Seen(tuple(x.detach() for x in outputs), weights, found, changed)


TENSORS = ("x", "memory", "keys", "mask", "queries", "bias", "documents")


def copied(ask: Ask, strided: bool = False) -> Ask:
    """Return the ask with tensors of its own; strided: the same numbers in another order in memory."""
    copies = {}
    for name in TENSORS:
        tensor = getattr(ask, name)
        if tensor is None:
            continue
        turned = strided and tensor.dim() == 3
        copies[name] = tensor.mT.contiguous().mT if turned else tensor.clone()
    return ask.but(**copies)


def gradients(style: Style, layer: nn.Module, ask: Ask) -> dict[str, Tensor]:
    """Return the gradients of one weighted sum of the outputs, with regard to inputs and parameters."""
    inputs = {name: getattr(ask, name) for name in ("x", "memory") if getattr(ask, name) is not None}
    leaves = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    outputs, _ = style.call(layer, ask.but(**{name: x * 1 for name, x in leaves.items()}))
    output = sum(outputs) / len(outputs)
    leaves |= dict(layer.named_parameters())
    if not output.requires_grad:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(weigh(output), list(leaves.values()), allow_unused=True)
    return {
        name: torch.zeros_like(leaf) if gradient is None else gradient
        for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
    }


def weigh(output: Tensor) -> Tensor:
    """Return a sum of the output in which every number counts differently."""
    return (output * torch.linspace(-1, 2, output.numel(), dtype=output.dtype).view(output.shape)).sum()


def trained(style: Style, module: ModuleType, ask: Ask, rate: float = 0.25, seed: int = 3) -> Tensor:
    """Return the output in training mode with dropout, under a fixed seed."""
    options = {name: rate for name in style.training.split(", ") if name}
    layer = style.build(module, ask, **options).train()
    torch.manual_seed(seed)
    return style.call(layer, copied(ask))[0][0].detach()


def evaluated(style: Style, module: ModuleType, ask: Ask, seed: int) -> list[Tensor]:
    """Return the outputs in eval mode of a layer that was given dropout."""
    options = {name: 0.25 for name in style.training.split(", ") if name}
    layer = style.build(module, ask, **options)
    torch.manual_seed(seed)
    return [x.detach() for x in style.call(layer, copied(ask))[0]]


def same_outputs(one: Seen, other: Seen) -> bool:
    """Say whether both fail in the same way or give the same outputs on every path."""
    if one.failure or other.failure:
        return one.failure == other.failure
    return all(close(a, b) for a, b in zip(one.outputs, other.outputs, strict=True))


def same_gradients(one: Seen, other: Seen) -> bool:
    """Say whether all gradients agree."""
    first, second = one.gradients or {}, other.gradients or {}
    return first.keys() == second.keys() and all(close(first[name], second[name]) for name in first)


def close(x: Tensor, y: Tensor) -> bool:
    """Say whether shapes and numbers agree, NaN included."""
    if x.shape != y.shape:
        return False
    return torch.allclose(x.double(), y.double(), rtol=1e-4, atol=1e-4, equal_nan=True)


def _equal(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other or torch.equal(one.nan_to_num(), other.nan_to_num())  # type: ignore[union-attr,arg-type]


@cache
def right_module(style: str) -> ModuleType:
    return load(MODULES / f"{style}.py")


@cache
def seen_right(style: str, strided: bool = False, backward: bool = False) -> list[Seen]:
    module = right_module(style)
    return [
        observe(STYLES[style], module, ask, strided=strided, backward=backward) for ask in asks(STYLES[style])
    ]


def real_queries(name: str, ask: Ask) -> torch.Tensor:
    """Which queries may look somewhere, or mix nothing by their style's promise: bool [B, T_q]."""
    style = STYLES[name]
    if style.empty == "zero":
        return torch.ones(ask.x.shape[:2], dtype=torch.bool)
    return allowed_of(style, ask).any(dim=-1)[:, 0]


def watched(style: str, module: ModuleType, backward: bool = False) -> list[Seen]:
    return [observe(STYLES[style], module, ask, backward=backward) for ask in asks(STYLES[style])]


def kept(name: str, ask: Ask, one: Seen, other: Seen) -> bool:
    """Say whether the real tokens' outputs are the same in both."""
    real = allowed_of(STYLES[name], ask).any(dim=-1)[:, 0]
    if ask.memory is None and ask.keys is not None:
        real = real & ask.keys.bool()
    if one.failure or other.failure:
        return one.failure == other.failure
    return all(close(a[real], b[real]) for a, b in zip(one.outputs, other.outputs, strict=True))


def leaks_nan(name: str, module: ModuleType) -> bool:
    """Say whether NaN in hidden keys reaches an output that may look somewhere else."""
    found = []
    for ask in asks(STYLES[name]):
        poisoned = hidden_nan(ask)
        if poisoned is None:
            continue
        real = allowed_of(STYLES[name], ask).any(dim=-1)[:, 0]
        if ask.memory is None:
            real = real & ask.keys.bool()
        try:
            output = STYLES[name].call(STYLES[name].build(module, poisoned), poisoned)[0][0]
        except FAILURES:
            continue
        found.append(bool(output[real].isnan().any()))
    assert found, "nothing to poison"
    return any(found)
