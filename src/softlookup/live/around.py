"""Where in the model a call happens: the stack is read, so that no hook has to be set.

A hook would switch off the fast path of torch's own transformer layers, and break the graphs of a compiler.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch import Tensor, nn

#: Arguments of a layer's forward that hold another sequence.
_OTHER_SEQUENCE = ("key_value_states", "encoder_hidden_states", "memory", "context", "encoder_output", "mem")
#: Parts of a path that say the same.
_CROSS_NAMES = ("cross", "encoder_attn", "encdec", "enc_attn", "multihead_attn", "memory_attn")
_DEEPEST = 60  # frames between a call and the layer it belongs to
_DEEPEST_MODEL = 400  # and the model


@dataclass(frozen=True)
class Around:
    """The layer that a call belongs to.

    path: of the layer in the watched model;  layer: the module itself
    variables: those of its forward, and of the functions between it and the call, the innermost first
    """

    path: str
    layer: nn.Module
    variables: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def value(self, name: str) -> Any:
        """Return the innermost variable of this name; None where there is none."""
        return next((it[name] for it in self.variables if name in it), None)

    @property
    def cross(self) -> bool:
        """Whether the keys come from another sequence."""
        lowered = self.path.lower()
        if getattr(self.layer, "is_cross_attention", False) is True or any(
            it in lowered for it in _CROSS_NAMES
        ):
            return True
        if isinstance(self.layer, nn.MultiheadAttention):
            q, k = self.value("query"), self.value("key")
            return q is not None and k is not None and q.data_ptr() != k.data_ptr()
        first = self.given
        return any((it := self.value(name)) is not None and it is not first for name in _OTHER_SEQUENCE)

    @property
    def given(self) -> Tensor | None:
        """What the layer's forward was given first: hidden states, queries."""
        given = self.variables[-1] if self.variables else {}
        return next((it for it in given.values() if isinstance(it, Tensor)), None)


def layer_around(paths: Mapping[int, str]) -> Around | None:
    """Return the innermost module on the stack that the watched model has; None where there is none.

    paths: by id of the module
    """
    variables: list[Mapping[str, Any]] = []
    for frame in _frames():
        values = frame.f_locals
        variables.append(values)
        for name in ("self", "module"):
            module = values.get(name)
            if isinstance(module, nn.Module) and id(module) in paths:
                if isinstance(module, (nn.Softmax, nn.Dropout)):
                    break  # a step of attention that is written as a module
                if isinstance(module, nn.TransformerEncoderLayer):  # its fast path never calls its attention
                    module = module.self_attn
                return Around(paths[id(module)], module, tuple(variables))
    return None


def outermost_module() -> nn.Module | None:
    """Return the module on the stack that was called first: the model; None where there is none."""
    found: nn.Module | None = None
    for frame in _frames(_DEEPEST_MODEL):
        module = frame.f_locals.get("self") if frame.f_code.co_varnames[:1] == ("self",) else None
        if isinstance(module, nn.Module):
            found = module
    return found


def _frames(deepest: int = _DEEPEST) -> Iterator[FrameType]:
    frame = sys._getframe(2)
    for _ in range(deepest):
        yield frame
        if frame.f_back is None:
            return
        frame = frame.f_back
