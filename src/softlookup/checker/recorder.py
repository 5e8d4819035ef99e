"""Note every torch function that a target calls, with the line of its file.

Only the outermost call is noted: the mode is off while it is made, so what ``F.softmax`` does is unseen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from torch import Tensor
from torch.overrides import TorchFunctionMode

from softlookup.checker.calls import Recorded

MOST_RECORDS = 20_000

#: Every spelling of an operation gets one name; ``x += y`` is "add_", as ``x.add_(y)`` is.
_NAMES = {
    "add": "add __add__ __radd__",
    "sub": "sub subtract rsub __sub__ __rsub__",
    "mul": "mul multiply __mul__ __rmul__",
    "div": "div divide true_divide __div__ __rdiv__ __truediv__ __rtruediv__",
    "floor_divide": "floor_divide __floordiv__ __rfloordiv__",
    "pow": "pow __pow__ __rpow__",
    "matmul": "matmul __matmul__ __rmatmul__",
    "neg": "neg negative __neg__",
    "add_": "add_ __iadd__",
    "sub_": "sub_ subtract_ __isub__",
    "mul_": "mul_ multiply_ __imul__",
    "div_": "div_ divide_ true_divide_ __idiv__ __itruediv__",
    "bitwise_and": "bitwise_and __and__ __rand__",
    "bitwise_or": "bitwise_or __or__ __ror__",
    "bitwise_xor": "bitwise_xor __xor__ __rxor__",
    "bitwise_and_": "bitwise_and_ __iand__",
    "bitwise_or_": "bitwise_or_ __ior__",
    "bitwise_not": "bitwise_not __invert__",
    "eq": "eq __eq__",
    "ne": "ne not_equal __ne__",
    "lt": "lt less __lt__",
    "le": "le less_equal __le__",
    "gt": "gt greater __gt__",
    "ge": "ge greater_equal __ge__",
    "softmax": "softmax _softmax",
}
_NAME_OF = {spelling: name for name, spellings in _NAMES.items() for spelling in spellings.split()}


class Recorder(TorchFunctionMode):
    """While active, keeps a record of each torch function call that returns or changes a tensor."""

    def __init__(self, file: str) -> None:
        super().__init__()
        self.records: list[Recorded] = []
        self._file = file
        self._seen: list[Tensor] = []  # keeps them alive, so that an id stays its tensor's own
        self._serials: dict[int, int] = {}
        self._aliases: dict[int, list[Tensor]] = {}  # tensors that share one storage
        self._last_serial = -1

    def serial(self, tensor: Tensor) -> int:
        """Return the number of this tensor's present content."""
        if id(tensor) not in self._serials:
            self._assign(tensor)
        return self._serials[id(tensor)]

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        asked = {
            name: value for name, value in kwargs.items() if not name.startswith("_")
        }  # not F's own _stacklevel
        given = list(_tensors((args, kwargs)))
        if len(self.records) >= MOST_RECORDS:
            return func(*args, **kwargs)
        before = [(tensor, self.serial(tensor), _version(tensor)) for tensor in given]
        shapes = tuple(tuple(tensor.shape) for tensor in given)  # now: the call may reshape in place
        numbers = tuple(_numbers((args, asked)))
        result = func(*args, **kwargs)
        changed = [tensor for tensor, _, version in before if _version(tensor) != version]
        produced = list(_tensors(result)) or changed
        if produced:
            for tensor in changed:
                self._assign_storage(tensor)
            writes = [self.serial(t) if _among(t, changed) else self._assign(t) for t in produced]
            lines = self._lines()
            self.records.append(
                Recorded(
                    op=op_name(func),
                    line=lines[0] if lines else 0,
                    inputs=shapes,
                    outputs=tuple(tuple(tensor.shape) for tensor in produced),
                    numbers=numbers,
                    options=_options(args, asked),
                    reads=tuple(serial for _, serial, _ in before),
                    writes=tuple(writes),
                    dtype=str(produced[0].dtype).removeprefix("torch."),
                    via=tuple(lines[1:]),
                )
            )
        return result

    def _assign(self, tensor: Tensor) -> int:
        self._last_serial += 1
        if id(tensor) not in self._serials:
            self._seen.append(tensor)
            self._aliases.setdefault(_storage(tensor), []).append(tensor)
        self._serials[id(tensor)] = self._last_serial
        return self._last_serial

    def _assign_storage(self, tensor: Tensor) -> None:
        """Give a fresh number to the tensor, and the same to its views and its base: they changed with it."""
        fresh = self._assign(tensor)
        for alias in self._aliases.get(_storage(tensor), []):
            self._serials[id(alias)] = fresh

    def _lines(self) -> list[int]:
        """Lines of the file that are being run, the innermost first."""
        frame: FrameType | None = sys._getframe(2)
        lines = []
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                lines.append(frame.f_lineno)
            frame = frame.f_back
        return lines


def op_name(func: Callable[..., Any]) -> str:
    """Return the one name of a torch function, however it was spelled."""
    name = getattr(func, "__name__", type(func).__name__)
    if name == "__get__":  # a property such as x.mT
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    return _NAME_OF.get(name, name)


def _options(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, str]:
    said = {
        name: value for name, value in kwargs.items() if value is not None and not isinstance(value, Tensor)
    }
    options = {name: repr(value)[:200] for name, value in said.items()}
    if args and isinstance(args[0], str):  # einsum
        options["equation"] = args[0]
    return options


def _among(tensor: Tensor, others: list[Tensor]) -> bool:
    return any(tensor is other for other in others)


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version


def _storage(tensor: Tensor) -> int:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):  # sparse tensors have none
        return id(tensor)


def _tensors(value: Any, depth: int = 0) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)) and depth < 4:
        for item in value:
            yield from _tensors(item, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        yield from _tensors(list(value.values()), depth + 1)


def _numbers(value: Any, depth: int = 0) -> Iterator[float]:
    """Yield plain numbers, and those held by tensors of no dimension: ``x / torch.tensor(8.0)``."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, Tensor):
        if value.dim() == 0 and value.device.type == "cpu" and value.dtype.is_floating_point:
            try:
                yield float(value.detach())
            except RuntimeError:  # inside vmap a tensor stands for many
                return
    elif isinstance(value, (list, tuple)) and depth < 4:
        for item in value:
            yield from _numbers(item, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        yield from _numbers(list(value.values()), depth + 1)
