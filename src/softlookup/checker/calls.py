"""What is said to a target and what it answers, wherever it runs: in this process or in a guarded child.

A target is driven one ``Call`` at a time; the ``Answer`` holds plain tensors, so that the verdict is computed
by the caller and never by the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal, Protocol

from torch import Tensor

#: A tensor, a number, a string, None, or lists, tuples and dicts of these.
Value = Any


class StandIn(SimpleNamespace):
    """An object with settings, in place of the layer that some functions take first; it has no behaviour."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a callable, as its signature shows it."""

    name: str
    kind: Literal["positional-only", "positional", "keyword-only", "*args", "**kwargs"]
    required: bool
    default: str = ""  # repr of the default value
    annotation: str = ""  # as written


@dataclass(frozen=True)
class Weight:
    """One parameter or floating-point buffer of a built module."""

    name: str  # e.g. "q_proj.weight"
    shape: tuple[int, ...]
    trained: bool = True  # a parameter; False for a buffer


@dataclass(frozen=True)
class Sketch:
    """A callable seen from outside: enough to guess how it is called, without importing its file."""

    name: str
    kind: Literal["function", "class", "instance"]
    file: str
    line: int
    doc: str
    parameters: tuple[Parameter, ...]  # of the call itself, without self
    init_parameters: tuple[Parameter, ...] = ()  # of the constructor, when it is a class
    bases: tuple[str, ...] = ()
    source: str = ""
    weights: tuple[Weight, ...] = ()  # of a built module
    parts: dict[str, str] = field(default_factory=dict)  # path of a submodule -> its class
    #: Plain settings of the module, its parts and its config: path -> value, e.g. "num_heads" -> 6.
    settings: dict[str, int | float] = field(default_factory=dict)
    differentiable: bool = True  # gradients pass through a call; False e.g. for NumPy and ONNX

    @property
    def has_weights(self) -> bool:
        """True for a built module with trained values."""
        return any(weight.trained for weight in self.weights)


@dataclass(frozen=True)
class Backward:
    """Ask for gradients: of sum(result[path] * cotangent) with respect to the named arguments."""

    path: tuple[int | str, ...]  # where the output sits in the result; () is the result itself
    cotangent: Tensor
    wrt: tuple[int | str, ...]  # positions in args, or names in kwargs or in weights


@dataclass(frozen=True)
class Call:
    """One call of the target."""

    args: tuple[Value, ...] = ()
    kwargs: dict[str, Value] = field(default_factory=dict)
    backward: Backward | None = None
    record: bool = False  # note every torch function that the target calls, with its line
    strided: bool = False  # hand over non-contiguous copies of every tensor argument (same values)
    training: bool = False  # a module is put in training mode for this call
    seed: int = 0  # torch.manual_seed before the call
    #: What a module is for this call only; afterwards it is as before.
    weights: dict[str, Tensor] = field(default_factory=dict)  # parameter or buffer -> its value
    dtype: str = ""  # dtype of all other weights, e.g. "bfloat16"; "" leaves them
    bypassed: tuple[str, ...] = ()  # parts that hand on their input
    settings: dict[str, Value] = field(default_factory=dict)  # path of an attribute -> its value
    #: (args, kwargs) of calls that a module gets just before, where it remembers what it was given.
    earlier: tuple[tuple[tuple[Value, ...], dict[str, Value]], ...] = ()


@dataclass(frozen=True)
class Failure:
    """An exception that the target raised."""

    kind: str  # class name, e.g. "RuntimeError"
    message: str
    line: int | None = None  # deepest line in the target's own file


@dataclass(frozen=True)
class Recorded:
    """One torch function call made while the target ran, in order."""

    op: str  # e.g. "softmax", "matmul", "masked_fill", "__mul__"
    line: int  # line of the target's file (the innermost frame that lies in it)
    inputs: tuple[tuple[int, ...], ...]  # shapes of the tensor arguments, in order
    outputs: tuple[tuple[int, ...], ...]  # shapes of the tensor results
    numbers: tuple[float, ...] = ()  # plain numbers among the arguments, positional then keyword
    options: dict[str, str] = field(default_factory=dict)  # repr of the non-tensor keyword arguments
    reads: tuple[
        int, ...
    ] = ()  # serial numbers of the tensors read: the results of earlier records, or arguments
    writes: tuple[
        int, ...
    ] = ()  # serial numbers of the tensors produced (in place: a fresh number, same tensor)
    dtype: str = ""  # dtype of the first tensor result, e.g. "float32"
    via: tuple[int, ...] = ()  # lines of the file that led to this one, the nearest caller first


@dataclass(frozen=True)
class Answer:
    """What one call gave back."""

    result: Value = None
    failure: Failure | None = None
    changed: tuple[int | str, ...] = ()  # tensor arguments whose values differ after the call
    gradients: dict[int | str, Tensor | None] = field(default_factory=dict)
    recorded: tuple[Recorded, ...] = ()
    arguments: dict[int | str, int] = field(default_factory=dict)  # serial number of each tensor argument
    result_serials: tuple[int, ...] = ()  # serial numbers of the tensors in the result, in order


class Target(Protocol):
    """Something that can be called, and describes itself."""

    @property
    def sketch(self) -> Sketch:
        """The callable seen from outside."""

    def perform(self, calls: list[Call]) -> list[Answer]:
        """Make the calls in order, one answer each; an exception of the target is an answer, never raised."""

    def own_weights(self) -> dict[str, Tensor]:
        """Return the parameters and buffers of a module as they are; empty for everything else."""
