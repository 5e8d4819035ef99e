"""Weights that are followed from a softmax to the values that they are multiplied with.

Where a model writes its attention by hand, what its heads found is no tensor of a known place: it is the
product of the weights and the values, after dropout, casts and changes of shape. So the softmax gives the
model a tensor that knows which row of the map each of its rows is, and that tells when they meet the values.
All else about it is that of the plain tensor, and it is one again when its layer is done.
"""

from __future__ import annotations

import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from softlookup.live.value_products import ValueProduct, value_product

#: What moves entries of a tensor and changes none of them.
_MOVES = frozenset(
    [
        "view",
        "reshape",
        "transpose",
        "permute",
        "unsqueeze",
        "squeeze",
        "flatten",
        "unflatten",
        "expand",
        "__getitem__",
        "narrow",
        "select",
        "swapaxes",
        "swapdims",
        "movedim",
        "moveaxis",
        "split",
        "chunk",
        "unbind",
        "tensor_split",
        "view_as",
        "reshape_as",
        "expand_as",
        "index_select",
        "repeat_interleave",
        "repeat",
        "T",
        "mT",
    ]
)


class Met(NamedTuple):
    """Rows of weights that were multiplied with values.

    rows: int64 [m] which rows of the map: (sample * H + head) * T_q + query
    outputs: [m, d_v] what they found
    again: some of these rows had met values before, in the same call
    values: gives [B, H, T_k, d_v], or None where rows of other heads were missing
    """

    rows: Tensor
    outputs: Tensor
    again: bool
    values: Callable[[], Tensor | None]


@dataclass(eq=False)
class Journey:
    """One map on its way.

    layer: the module that made it;  sizes: B, H, T_q, T_k
    at_values: told of rows that met values; what they return takes the place of the outputs
    at_end: told which rows had met values when the layer was done, bool [B * H * T_q]
    """

    layer: nn.Module
    sizes: tuple[int, int, int, int]
    at_values: list[Callable[[Met], Tensor]] = field(default_factory=list)
    at_end: list[Callable[[Tensor], None]] = field(default_factory=list)
    layer_left: bool = False
    _met: Tensor | None = None
    _carriers: list[weakref.ref[Tensor]] = field(default_factory=list)

    def begin(self, weights: Tensor) -> Tensor:
        """Return weights, in the model's own shape, that are followed from here."""
        batch, heads, q_len, _ = self.sizes
        rows = torch.arange(batch * heads * q_len, device=weights.device).view(weights.shape[:-1])
        self._met = torch.zeros(rows.numel(), dtype=torch.bool, device=weights.device)
        return self.carried_by(weights, rows[..., None].expand(weights.shape))

    def carried_by(self, weights: Tensor, rows: Tensor) -> Tensor:
        """Return weights that are followed.

        rows: int64, of their shape: which row of the map each entry belongs to
        """
        if type(weights) is not Tensor:
            return weights
        carrier: Any = weights
        carrier.__class__ = Followed  # with its own graph, memory and numbers
        carrier.journey, carrier.rows = self, rows
        self._carriers.append(weakref.ref(weights))
        return weights

    def meet(self, product: ValueProduct) -> Tensor | None:
        """Pass on that rows met values; returns the outputs that take their place, None for the same."""
        weights: Any = product.weights
        of_entries = weights.rows.permute(product.axes)  # [..., T_q, T_k]
        first, last = of_entries[..., 0], of_entries[..., -1]
        if of_entries.shape[-1] != self.sizes[3] or not torch.equal(first, last):
            return None  # summed over queries, or over some of the keys
        rows = first.expand(product.outputs.shape[:-1])
        flat, numbers = product.outputs.reshape(-1, product.outputs.shape[-1]), rows.reshape(-1)
        assert self._met is not None
        met = Met(numbers, flat, bool(self._met[numbers].any()), lambda: self._values(rows, product.values))
        self._met[numbers] = True
        for told in self.at_values:
            met = met._replace(outputs=told(met))
        return None if met.outputs is flat else met.outputs.reshape(product.outputs.shape)

    def _values(self, rows: Tensor, values: Tensor) -> Tensor | None:
        """[B, H, T_k, d_v] of values [..., T_k, d_v], whose leading axes are those of rows [..., T_q]."""
        batch, heads, q_len, k_len = self.sizes
        if rows.dim() < 1 or rows.dim() + 1 < values.dim():
            return None
        maps = rows // q_len  # [..., T_q] which map a row belongs to
        if not torch.equal(maps, maps[..., :1].expand_as(maps)):
            return None
        each = (
            values.detach()
            .expand(*maps.shape[:-1], k_len, values.shape[-1])
            .reshape(-1, k_len, values.shape[-1])
        )
        numbers = maps[..., 0].reshape(-1)
        if len(set(numbers.tolist())) != batch * heads:
            return None
        found = torch.empty(batch * heads, *each.shape[1:], dtype=each.dtype, device=each.device)
        return found.index_copy(0, numbers, each).view(batch, heads, *each.shape[1:])

    def end(self) -> None:
        """Make all carriers plain tensors, and say which rows met values."""
        for reference in self._carriers:
            carrier: Any = reference()
            if carrier is not None:
                del carrier.journey, carrier.rows
                carrier.__class__ = Tensor
        self._carriers.clear()
        for told in self.at_end:
            assert self._met is not None
            told(self._met)

    @property
    def arrived(self) -> bool:
        """Whether all rows met values."""
        return self._met is not None and bool(self._met.all())


class Followed(Tensor):
    """Weights on a journey."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run any function on the tensors as they are, and look at what came of the weights."""
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
            return _after(func, args, kwargs, result)


def as_plain(output: Any) -> Any:
    """Return a tensor that is followed as one that is not, and anything else as it is."""
    if not isinstance(output, Followed):
        return output
    with torch._C.DisableTorchFunctionSubclass():
        return output.as_subclass(Tensor)


def _followed(value: Any) -> bool:
    return isinstance(value, Followed) and hasattr(value, "journey")


def _after(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Return the result of a function as the model gets it."""
    property_of = getattr(func, "__self__", None)
    name = getattr(property_of if func.__name__ == "__get__" else func, "__name__", "")
    if name in _MOVES:
        return _moved(func, args, kwargs, result)
    if not isinstance(result, Tensor) or isinstance(result, Followed):
        return result
    product = value_product(name, args, kwargs, result, _followed)
    if product is not None:
        weights: Any = product.weights
        outputs = weights.journey.meet(product)
        return result if outputs is None else product.back(outputs)
    carrier: Any = next((it for it in (*args, *kwargs.values()) if _followed(it)), None)
    makes_another = name.endswith("_like") or name.startswith("new_")
    if carrier is None or makes_another or result.shape != carrier.shape or not result.is_floating_point():
        return result
    return carrier.journey.carried_by(result, carrier.rows)  # dropout, a cast, a factor


def _moved(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> Any:
    """Move the numbers of the rows as the weights were moved."""
    carrier: Any = args[0] if args else None
    if not _followed(carrier) or any(isinstance(it, torch.dtype) for it in args):
        return result
    rows = func(carrier.rows, *args[1:], **kwargs)
    if isinstance(result, Tensor):
        return carrier.journey.carried_by(result, rows)
    parts = (carrier.journey.carried_by(part, some) for part, some in zip(result, rows, strict=True))
    return type(result)(parts)


class Following:
    """Ends the journeys of one model, each when its layer is done.

    at_begin: told that a forward of the model begins
    """

    def __init__(self, model: nn.Module, at_begin: Callable[[], None] | None = None) -> None:
        self._model, self._at_begin = model, at_begin
        self._journeys: dict[int, list[Journey]] = defaultdict(list)  # by thread

    def follow(
        self, weights: Tensor, layer: nn.Module, sizes: tuple[int, int, int, int]
    ) -> tuple[Tensor, Journey]:
        """Return weights [..., T_q, T_k] that are followed, and their journey: the one they are on already.

        sizes: B, H, T_q, T_k; the weights may have further keys, which the model drops
        """
        if _followed(weights):
            going: Any = weights
            return weights, going.journey
        journey = Journey(layer, sizes)
        self._journeys[threading.get_ident()].append(journey)
        return journey.begin(weights), journey

    @contextmanager
    def until_done(self) -> Iterator[None]:
        """End journeys while the block runs, and those that are left with it.

        Two hooks for all modules are set meanwhile: none is on the model, whose fast paths would see it.
        """
        handles = [
            register_module_forward_pre_hook(self._module_begins),
            register_module_forward_hook(self._module_done),
        ]
        try:
            yield
            self._end(lambda journey: True, list(self._journeys))
        finally:
            for handle in handles:
                handle.remove()
            for thread in list(self._journeys):
                self._drop(thread)

    def _module_begins(self, module: nn.Module, args: Any) -> None:
        if not torch.compiler.is_compiling() and module is self._model:
            self._drop(threading.get_ident())
            if self._at_begin is not None:
                self._at_begin()

    def _module_done(self, module: nn.Module, args: Any, output: Any) -> None:
        if torch.compiler.is_compiling():
            return
        thread = threading.get_ident()
        if not self._journeys.get(thread):
            return
        for journey in self._journeys[thread]:
            journey.layer_left |= module is journey.layer
        self._end(lambda it: module is self._model or (it.layer_left and it.arrived), [thread])

    def _end(self, done: Callable[[Journey], bool], threads: list[int]) -> None:
        for thread in threads:
            ending = [it for it in self._journeys[thread] if done(it)]
            self._journeys[thread] = [it for it in self._journeys[thread] if it not in ending]
            for journey in ending:
                journey.end()

    def _drop(self, thread: int) -> None:
        """End journeys that an exception has cut short: nobody is told."""
        for journey in self._journeys.pop(thread, ()):
            journey.at_end.clear()
            journey.end()
