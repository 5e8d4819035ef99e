"""ONNX: a model in a file, a model in memory, and what ``torch.onnx.export`` returns.

It is run by onnxruntime where that is installed, else by the reference evaluator of the onnx package.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

from softlookup.checker.arrays import from_numpy, to_numpy
from softlookup.checker.callee import Callee, Outside, replaced
from softlookup.checker.calls import Call, Parameter, Weight
from softlookup.checker.model_files import require_reader
from softlookup.checker.written_with import is_a

#: Operators that multiply by a matrix: constants there are trained, everything else may be a table.
_MULTIPLY = {"MatMul", "Gemm", "Einsum"}
_ADD = {"Add", "Gemm"}


class OnnxFile:
    """A model that was read from a file."""

    def __init__(self, path: str) -> None:
        require_reader(path)
        import onnx

        self.path = path
        self.model_proto = onnx.load(path)


def recognises(target: Any) -> bool:
    """Say whether this is a model in memory, or holds one."""
    name = type(target).__name__
    return isinstance(target, OnnxFile) or (
        (name == "ModelProto" and is_a(target, "onnx"))
        or (name == "ONNXProgram" and is_a(target, "torch.onnx"))
    )


def callee(target: Any) -> Callee:
    """Return how it is called."""
    return OnnxCallee(_proto(target))


def outside(target: Any) -> Outside:
    """Return the inputs of its graph with their types and the names of their axes, and its constants."""
    model = _proto(target)
    path = getattr(target, "path", "")
    constants = {constant.name for constant in model.graph.initializer}
    return Outside(
        None,
        parameters=tuple(_parameter(one, constants) for one in model.graph.input),
        weights=tuple(
            Weight(name, tuple(tensor.shape), _is_trained(model, name, tensor))
            for name, tensor in OnnxCallee(model).weights().items()
        ),
        file=path,
        name=os.path.splitext(os.path.basename(path))[0] or model.graph.name,
        doc="\n\n".join(filter(None, (model.doc_string, model.graph.doc_string))),
    )


class OnnxCallee:
    """A graph. Its constants are handed over with every call, so that they can be others for one call."""

    differentiable = False

    def __init__(self, model: Any) -> None:
        from onnx import numpy_helper

        constants = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        self._weights = {n: from_numpy(a) for n, a in constants.items() if a.dtype.kind == "f" and a.size > 1}
        self._inputs = [one.name for one in model.graph.input if one.name not in self._weights]
        self._outputs = [one.name for one in model.graph.output]
        self._run = _runner(_with_inputs(model, self._weights))

    def call(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], asked: Call, weights: dict[str, Tensor]
    ) -> Any:
        """Run it; one output comes back by itself, several as a dict by name.

        Raises: TypeError where gradients, or another dtype of the weights, are asked for; ValueError for a
            weight that it does not have.
        """
        if asked.backward is not None:
            raise TypeError("an ONNX model computes no gradients")
        if asked.dtype and any(
            tensor.dtype != getattr(torch, asked.dtype) for tensor in self._weights.values()
        ):
            raise TypeError(f"an ONNX model keeps its dtype: its weights cannot be {asked.dtype}")
        given = {**dict(zip(self._inputs, args, strict=False)), **kwargs, **replaced(self._weights, weights)}
        with torch._C.DisableTorchFunction():  # how tensors become arrays is no step of the model
            results = self._run({name: _array(value) for name, value in given.items() if value is not None})
            tensors = [from_numpy(result) for result in results]
        return tensors[0] if len(tensors) == 1 else dict(zip(self._outputs, tensors, strict=True))

    def weights(self) -> dict[str, Tensor]:
        """Return the constants that hold real numbers, but for single numbers."""
        return dict(self._weights)

    def device(self) -> torch.device:
        """It runs on the CPU."""
        return torch.device("cpu")


def _proto(target: Any) -> Any:
    return getattr(target, "model_proto", target)


def _array(value: Any) -> Any:
    import numpy as np

    return to_numpy(value) if isinstance(value, Tensor) else np.asarray(value)


def _with_inputs(model: Any, weights: dict[str, Tensor]) -> Any:
    """Return the model with these constants as inputs that have to be given."""
    from onnx import ModelProto, helper

    changed = ModelProto()
    changed.CopyFrom(model)
    constants = [one for one in changed.graph.initializer if one.name in weights]
    known = {one.name for one in changed.graph.input}
    for one in constants:
        changed.graph.initializer.remove(one)
        if one.name not in known:
            changed.graph.input.append(helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)))
    return changed


def _runner(model: Any) -> Any:
    """Return a function from arrays by name to the list of outputs."""
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        evaluator = ReferenceEvaluator(model)
        return lambda given: evaluator.run(None, given)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4  # what fails is raised too
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return lambda given: session.run(None, given)


def _parameter(one: Any, constants: set[str]) -> Parameter:
    from onnx import TensorProto

    kind = one.type.tensor_type
    axes = [axis.dim_param or str(axis.dim_value or "?") for axis in kind.shape.dim]
    written = f"{TensorProto.DataType.Name(kind.elem_type).lower()}[{', '.join(axes)}]"
    return Parameter(one.name, "positional", one.name not in constants, annotation=written)


def _is_trained(model: Any, name: str, tensor: Tensor) -> bool:
    """A matrix that is multiplied by or a vector that is added; a table of positions or a mask is neither."""
    readers = {node.op_type for node in model.graph.node if name in node.input}
    return bool(readers & (_MULTIPLY if tensor.dim() > 1 else _ADD))
