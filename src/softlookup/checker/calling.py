"""Make the calls that a ``Call`` describes, here or in the child; reduce what comes back to plain values."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.callee import Callee
from softlookup.checker.calls import Answer, Backward, Call, Failure, Value
from softlookup.checker.recorder import Recorder
from softlookup.checker.wire import travels

WEIGHT = "weight "  # before the name of a weight, where arguments have their keys
_DEEPEST = 8  # levels of nesting that a result may have


def make_call(callee: Callee, call: Call, file: str) -> Answer:
    """Call a target once with fresh copies of the tensors.

    ``file`` is the target's own file: lines are those of frames that lie in it. Whatever the target raises is
    the answer's failure, SystemExit and KeyboardInterrupt included.
    """
    answer = _attempt(callee, call, file)
    if call.record and answer.failure:  # a compiler may refuse to work while it is watched: try unwatched
        again = _attempt(callee, dataclasses.replace(call, record=False), file)
        if not again.failure:
            return dataclasses.replace(again, recorded=answer.recorded, arguments=answer.arguments)
    return answer


def _attempt(callee: Callee, call: Call, file: str) -> Answer:
    given = _Given(call, callee.device())
    recorder = Recorder(file) if call.record else None
    serials = {key: recorder.serial(tensor) for key, tensor in given.top_level()} if recorder else {}
    _seed(call.seed)
    result, failure = None, None
    gradients: dict[int | str, Tensor | None] = {}
    result_serials: tuple[int, ...] = ()
    try:
        with torch.set_grad_enabled(call.backward is not None):
            with recorder or contextlib.nullcontext():
                asked = dataclasses.replace(call, earlier=given.earlier)
                returned = callee.call(given.args, given.kwargs, asked, given.weights)
            reduced = plain(returned, _same)
            if recorder:
                result_serials = tuple(recorder.serial(tensor) for tensor in _tensors(reduced))
            if call.backward:
                gradients = given.gradients(reduced, call.backward)
        result = plain(reduced, _detached)
    except BaseException as error:
        failure = failure_of(error, file)
    return Answer(
        result=result,
        failure=failure,
        changed=given.changed(),
        gradients=gradients,
        recorded=tuple(recorder.records) if recorder else (),
        arguments=serials,
        result_serials=result_serials,
    )


class _Given:
    """The arguments of one call: copies, the caller's stay as they are. A tensor given twice stays one."""

    def __init__(self, call: Call, device: torch.device | None) -> None:
        self._device = device
        self._strided = call.strided
        self._wanted = {id(_argument(call, key)) for key in call.backward.wrt} if call.backward else set()
        self._originals: dict[int, Tensor] = {}  # id of the caller's tensor -> it
        self._leaves: dict[int, Tensor] = {}  # -> the same values, for which gradients are taken
        self._handed: dict[int, Tensor] = {}  # -> the copy that the target gets
        self._call = call
        self.args = tuple(plain(value, self._copy, keep=True) for value in call.args)
        self.kwargs = {name: plain(value, self._copy, keep=True) for name, value in call.kwargs.items()}
        self.earlier = plain(call.earlier, self._copy, keep=True)
        self._strided = False  # weights lie in memory as they always do
        self.weights = {name: self._copy(value) for name, value in call.weights.items()}

    def _copy(self, tensor: Tensor) -> Tensor:
        if id(tensor) not in self._handed:
            leaf = tensor.detach().to(self._device or tensor.device)
            leaf.requires_grad_(id(tensor) in self._wanted)
            self._originals[id(tensor)] = tensor
            self._leaves[id(tensor)] = leaf
            # Not the leaf itself: autograd forbids to change a leaf in place, which is not judged here.
            with torch.enable_grad():
                self._handed[id(tensor)] = spread(leaf) if self._strided else leaf.clone()
        return self._handed[id(tensor)]

    def top_level(self) -> Iterator[tuple[int | str, Tensor]]:
        """Yield the tensor arguments and the chosen weights with their keys."""
        named = [(WEIGHT + name, value) for name, value in self.weights.items()]
        arguments: list[tuple[int | str, Value]] = [*enumerate(self.args), *self.kwargs.items(), *named]
        for key, value in arguments:
            if isinstance(value, Tensor):
                yield key, value

    def changed(self) -> tuple[int | str, ...]:
        """Return the keys of the arguments in which a tensor is no longer as it was handed over."""
        different = {key for key in self._handed if not _equal(self._handed[key], self._originals[key])}
        arguments: list[tuple[int | str, Value]] = [*enumerate(self._call.args), *self._call.kwargs.items()]
        return tuple(
            key for key, value in arguments if any(id(tensor) in different for tensor in _tensors(value))
        )

    def gradients(self, result: Value, asked: Backward) -> dict[int | str, Tensor | None]:
        """Return d sum(result[path] * cotangent) / d argument; None where they are not connected."""
        for step in asked.path:
            result = result[step]
        total = (result * asked.cotangent.to(result.device)).sum()
        if not total.requires_grad:
            return dict.fromkeys(asked.wrt)
        leaves = [self._leaves[id(_argument(self._call, key))] for key in asked.wrt]
        found = torch.autograd.grad(total, leaves, allow_unused=True)
        return {key: None if grad is None else grad.cpu() for key, grad in zip(asked.wrt, found, strict=True)}


def spread(tensor: Tensor) -> Tensor:
    """Return the same values in memory that is not contiguous, as after splitting heads and transposing."""
    if tensor.dim() >= 2:
        axes = (-3, -2) if tensor.dim() >= 3 else (0, 1)
        swapped = tensor.transpose(*axes).clone(memory_format=torch.contiguous_format).transpose(*axes)
        if not swapped.is_contiguous():
            return swapped
    if tensor.dim() >= 1 and tensor.shape[-1] > 1:  # an axis of size 1 does not count: leave gaps instead
        return torch.stack([tensor, tensor], dim=-1)[..., 0]
    return tensor.clone()


def plain(value: Any, on_tensor: Callable[[Tensor], Any], *, keep: bool = False, depth: int = 0) -> Value:
    """Reduce to tensors, numbers, strings, None, lists, tuples and dicts.

    A namedtuple becomes a tuple, a dataclass or a mapping a dict, an array a tensor, and anything else the
    name of its class in angle brackets; with ``keep`` it stays as it is.
    """

    def inner(item: Any) -> Value:
        return plain(item, on_tensor, keep=keep, depth=depth + 1)

    if isinstance(value, Tensor):
        return on_tensor(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth < _DEEPEST:
        if isinstance(value, list):
            return [inner(item) for item in value]
        if isinstance(value, tuple):
            return tuple(inner(item) for item in value)
        if isinstance(value, Mapping):
            return {
                key if isinstance(key, (int, str)) else str(key): inner(item) for key, item in value.items()
            }
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return {field.name: inner(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if keep:
        return value
    if type(value).__module__ == "numpy":
        return on_tensor(torch.as_tensor(value))
    return f"<{type(value).__module__}.{type(value).__qualname__}>"


def failure_of(error: BaseException, file: str) -> Failure:
    """Return what was raised, and the deepest line of ``file`` that it passed through."""
    message = str(error).strip()[:2000]
    if isinstance(error, SyntaxError) and error.filename == file:
        return Failure(type(error).__name__, error.msg, error.lineno)
    return Failure(type(error).__name__, message, deepest_line(error.__traceback__, file))


def one_line(failure: Failure) -> str:
    """Return ``KIND: first line of the message, at line N``."""
    words = failure.message.splitlines()[0][:300] if failure.message else ""
    text = f"{failure.kind}: {words}" if words else failure.kind
    return f"{text}, at line {failure.line}" if failure.line else text


def deepest_line(traceback: TracebackType | None, file: str) -> int | None:
    """Return the line of ``file`` that an exception passed through last before it was raised."""
    line = None
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == file:
            line = traceback.tb_lineno
        traceback = traceback.tb_next
    return line


def _argument(call: Call, key: int | str) -> Value:
    if isinstance(key, int):
        return call.args[key]
    return call.weights[key.removeprefix(WEIGHT)] if key.startswith(WEIGHT) else call.kwargs[key]


def _seed(seed: int) -> None:
    # Not torch.manual_seed: that would seed an accelerator too, now or when it is first used.
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)


def _same(tensor: Tensor) -> Tensor:
    return tensor


def _detached(tensor: Tensor) -> Tensor | str:
    """Return a dense copy on the CPU that shares nothing with the target."""
    if tensor.layout != torch.strided and not tensor.is_nested:
        tensor = tensor.to_dense()
    if tensor.is_nested or not travels(tensor):
        return f"<{tensor.dtype!s} tensor>"
    return tensor.detach().as_subclass(Tensor).cpu().clone()


def _tensors(value: Value) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)


@torch.no_grad()
def _equal(seen: Tensor, original: Tensor) -> bool:
    if seen.shape != original.shape or seen.dtype != original.dtype:
        return False
    seen = seen.to(original.device)
    same = seen == original
    if original.dtype.is_floating_point:
        same |= seen.isnan() & original.isnan()
    return bool(same.all())
