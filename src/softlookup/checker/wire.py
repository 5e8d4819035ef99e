"""Write calls, answers and sketches as JSON and safetensors bytes; read them. Never pickle, which runs code.

The writer lays the bytes out itself, because the one of the safetensors package needs numpy in some versions;
the reader is the package's own, which checks every offset.
"""

from __future__ import annotations

import ctypes
import json
from dataclasses import asdict
from typing import Any

import torch
from safetensors.torch import load
from torch import Tensor

from softlookup.checker.calls import (
    Answer,
    Backward,
    Call,
    Failure,
    Parameter,
    Recorded,
    Sketch,
    StandIn,
    Value,
    Weight,
)

_DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
}


class Tensors:
    """The tensors of one message: a value refers to them by position, the same tensor always by the same."""

    def __init__(self) -> None:
        self._list: list[Tensor] = []
        self._positions: dict[int, int] = {}

    def position(self, tensor: Tensor) -> int:
        """Return where this tensor sits, adding it when it is new."""
        if id(tensor) not in self._positions:
            self._positions[id(tensor)] = len(self._list)
            self._list.append(tensor)  # keeps it alive, so that its id stays its own
        return self._positions[id(tensor)]

    def pack(self) -> bytes:
        """Return the tensors as safetensors bytes."""
        header: dict[str, Any] = {}
        pieces, end = [], 0
        for position, tensor in enumerate(self._list):
            dense = tensor.detach().cpu().contiguous()
            size = dense.numel() * dense.element_size()
            header[str(position)] = {
                "dtype": _DTYPES[dense.dtype],
                "shape": list(dense.shape),
                "data_offsets": [end, end + size],
            }
            pieces.append(ctypes.string_at(dense.data_ptr(), size) if size else b"")
            end += size
        if not header:
            return b""
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text + b"".join(pieces)


def unpack_tensors(block: bytes) -> list[Tensor]:
    """Return the tensors of a message in order."""
    if not block:
        return []
    named = load(block)
    return [named[str(position)] for position in range(len(named))]


def travels(tensor: Tensor) -> bool:
    """Say whether the tensor can be written: dense, with storage, of a real dtype."""
    return tensor.dtype in _DTYPES and tensor.layout == torch.strided and tensor.device.type != "meta"


def write_value(value: Value, tensors: Tensors) -> Any:
    """Return the JSON for a value; whatever JSON cannot say is an object with one key."""
    if isinstance(value, Tensor) and value.is_complex():
        return {"complex": tensors.position(torch.view_as_real(value))}
    if isinstance(value, Tensor):
        return {"tensor": tensors.position(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, list):
        return [write_value(item, tensors) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [write_value(item, tensors) for item in value]}
    if isinstance(value, dict):
        return {
            "dict": [[write_value(key, tensors), write_value(item, tensors)] for key, item in value.items()]
        }
    if isinstance(value, StandIn):
        return {"stand-in": {name: write_value(item, tensors) for name, item in vars(value).items()}}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise TypeError(f"a {type(value).__name__} cannot be handed to a child process")


def read_value(data: Any, tensors: list[Tensor]) -> Value:
    """Return the value that ``write_value`` wrote."""
    if isinstance(data, list):
        return [read_value(item, tensors) for item in data]
    if not isinstance(data, dict):
        return data
    ((kind, content),) = data.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "complex":
        return torch.view_as_complex(tensors[content])
    if kind == "tuple":
        return tuple(read_value(item, tensors) for item in content)
    if kind == "dict":
        return {read_value(key, tensors): read_value(item, tensors) for key, item in content}
    if kind == "stand-in":
        return StandIn(**{name: read_value(item, tensors) for name, item in content.items()})
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "device":
        return torch.device(content)
    raise ValueError(f"unknown kind of value: {kind}")


def write_calls(calls: list[Call]) -> tuple[list[Any], bytes]:
    """Return JSON and safetensors bytes of a batch; a tensor used by several calls travels once."""
    tensors = Tensors()
    return [_write_call(call, tensors) for call in calls], tensors.pack()


def _write_call(call: Call, tensors: Tensors) -> dict[str, Any]:
    asked = call.backward
    return {
        "args": write_value(call.args, tensors),
        "kwargs": write_value(call.kwargs, tensors),
        "backward": asked and write_value((asked.path, asked.cotangent, asked.wrt), tensors),
        "record": call.record,
        "strided": call.strided,
        "training": call.training,
        "seed": call.seed,
        "weights": write_value(call.weights, tensors),
        "dtype": call.dtype,
        "bypassed": call.bypassed,
        "settings": write_value(call.settings, tensors),
        "earlier": write_value(call.earlier, tensors),
    }


def read_calls(data: list[Any], block: bytes) -> list[Call]:
    """Return the batch that ``write_calls`` wrote."""
    tensors = unpack_tensors(block)
    return [_read_call(item, tensors) for item in data]


def _read_call(data: dict[str, Any], tensors: list[Tensor]) -> Call:
    asked = data["backward"] and Backward(*read_value(data["backward"], tensors))
    return Call(
        args=read_value(data["args"], tensors),
        kwargs=read_value(data["kwargs"], tensors),
        backward=asked,
        record=data["record"],
        strided=data["strided"],
        training=data["training"],
        seed=data["seed"],
        weights=read_value(data["weights"], tensors),
        dtype=data["dtype"],
        bypassed=tuple(data["bypassed"]),
        settings=read_value(data["settings"], tensors),
        earlier=read_value(data["earlier"], tensors),
    )


def write_answer(answer: Answer) -> tuple[dict[str, Any], bytes]:
    """Return JSON and safetensors bytes of one answer."""
    tensors = Tensors()
    data = {
        "result": write_value(answer.result, tensors),
        "failure": answer.failure and asdict(answer.failure),
        "changed": list(answer.changed),
        "gradients": write_value(answer.gradients, tensors),
        "recorded": [vars(record) for record in answer.recorded],
        "arguments": list(answer.arguments.items()),
        "result_serials": answer.result_serials,
    }
    return data, tensors.pack()


def read_answer(data: dict[str, Any], block: bytes) -> Answer:
    """Return the answer that ``write_answer`` wrote."""
    tensors = unpack_tensors(block)
    return Answer(
        result=read_value(data["result"], tensors),
        failure=read_failure(data["failure"]),
        changed=tuple(data["changed"]),
        gradients=read_value(data["gradients"], tensors),
        recorded=tuple(_read_record(record) for record in data["recorded"]),
        arguments={key: int(serial) for key, serial in data["arguments"]},
        result_serials=tuple(data["result_serials"]),
    )


def read_failure(data: dict[str, Any] | None) -> Failure | None:
    """Return the failure, or None."""
    return Failure(**data) if data else None


def _read_record(data: dict[str, Any]) -> Recorded:
    shapes = {name: tuple(map(tuple, data[name])) for name in ("inputs", "outputs")}
    rows = {name: tuple(data[name]) for name in ("numbers", "reads", "writes", "via")}
    return Recorded(**{**data, **shapes, **rows})


def write_sketch(sketch: Sketch) -> dict[str, Any]:
    """Return the JSON of a sketch."""
    return asdict(sketch)


def read_sketch(data: dict[str, Any]) -> Sketch:
    """Return the sketch that ``write_sketch`` wrote."""
    parameters = {
        name: tuple(Parameter(**item) for item in data[name]) for name in ("parameters", "init_parameters")
    }
    weights = tuple(Weight(**{**item, "shape": tuple(item["shape"])}) for item in data["weights"])
    return Sketch(**{**data, **parameters, "bases": tuple(data["bases"]), "weights": weights})
