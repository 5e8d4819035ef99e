"""The child's side of the conversation: requests in, answers out."""

from __future__ import annotations

import errno
import importlib.util
import inspect
import json
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any

import torch
from torch import nn

from softlookup.checker import wire
from softlookup.checker.callee import Callee, placed
from softlookup.checker.calling import failure_of, make_call
from softlookup.checker.calls import Failure, Sketch
from softlookup.checker.constructing import instance_of, is_factory, made
from softlookup.checker.frames import SIZES, pack_frame
from softlookup.checker.frameworks import callee_of, framework_of
from softlookup.checker.frameworks.onnx_models import OnnxFile
from softlookup.checker.lazy_weights import with_its_weights
from softlookup.checker.model_files import is_model_file
from softlookup.checker.sketching import sketch_of

MODULE_NAME = "softlookup_target"


class Server:
    """Loads the file and answers one request at a time."""

    def __init__(self, channel: socket.socket, file: str, limits: dict[str, str], device: str = "") -> None:
        torch.set_num_threads(1)
        self._channel = channel
        self._file = file
        self._limits = limits
        self._device = device  # "": each target stays where it is
        self._module = ModuleType(MODULE_NAME)
        self._targets: list[Callee] = []

    def run(self, name_program: Callable[[str], None]) -> None:
        """Serve until the parent closes the channel.

        name_program: called with the path of the file before it is loaded: what it finds as its own name
        """
        if not self._file and not self._told_a_file():
            return
        name_program(self._file)
        self._say(f"import {os.path.basename(self._file)}")
        failure = self._load()
        sketches = [wire.write_sketch(sketch) for sketch in self._sketches()]
        self._send({"failure": failure and vars(failure), "sketches": sketches})
        while (request := self._receive()) is not None:
            header, tensors = request
            if header["do"] == "pick":
                self._pick(header["name"], wire.read_value(header["init"], wire.unpack_tensors(tensors)))
            elif header["do"] == "weights":
                self._tell_weights(header["target"])
            else:
                self._perform(header["target"], header["calls"], tensors)

    def _told_a_file(self) -> bool:
        """Wait for the file; False when the parent has closed the channel."""
        request = self._receive()
        if request is None:
            return False
        self._file = request[0]["file"]
        return True

    def _load(self) -> Failure | None:
        os.environ.setdefault("KERAS_BACKEND", "torch")  # what Keras is called with here
        if is_model_file(self._file):
            return self._read_model()
        beside = os.path.dirname(self._file)
        package, root = _package_of(beside)
        # As when it runs as a script: siblings come first. A part of a package is imported as such, and a
        # sibling may have the package's own name.
        sys.path[:0] = [root, beside] if package else [beside]
        loader = SourceFileLoader(f"{package}{MODULE_NAME}", self._file)
        spec = importlib.util.spec_from_loader(loader.name, loader)
        assert spec is not None
        self._module = importlib.util.module_from_spec(spec)
        sys.modules[loader.name] = self._module  # dataclasses and inspect look there
        try:
            loader.exec_module(self._module)
        except BaseException as error:
            return self._failure(error)
        return None

    def _read_model(self) -> Failure | None:
        """Read a file that holds a model and no code, as if a module had defined it."""
        name = re.sub(r"\W", "_", os.path.splitext(os.path.basename(self._file))[0])
        try:
            setattr(self._module, name, OnnxFile(self._file))
        except BaseException as error:
            return self._failure(error)
        return None

    def _sketches(self) -> list[Sketch]:
        defined = vars(self._module).copy()
        return [sketch_of(value, name) for name, value in defined.items() if self._is_own(value)]

    def _is_own(self, value: Any) -> bool:
        home = self._module.__name__
        if inspect.isroutine(value) or inspect.isclass(value):
            return getattr(value, "__module__", None) == home
        if isinstance(value, nn.Module) or (type(value).__module__ == home and callable(value)):
            return True
        framework = framework_of(value)
        if framework is None:
            return False
        # A compiled function is at home where the function is that it was made of; a layer is the file's own.
        made_of = framework.outside(value).shown
        return made_of.__module__ == home if inspect.isroutine(made_of) else True

    def _pick(self, name: str, init: dict[str, Any] | None) -> None:
        """Find or build what the name says: ``function``, ``instance``, ``Class`` or ``Class.method``."""
        try:
            target = with_its_weights(_found(self._module, name, init))
            sketch = sketch_of(target, name)
            callee = callee_of(target)
            self._targets.append(placed(callee, target, self._device) if self._device else callee)
        except BaseException as error:
            self._send({"failure": vars(self._failure(error))})
            return
        self._send({"failure": None, "target": len(self._targets) - 1, "sketch": wire.write_sketch(sketch)})

    def _tell_weights(self, number: int) -> None:
        tensors = wire.Tensors()
        found = {name: t.cpu() for name, t in self._targets[number].weights().items() if wire.travels(t)}
        self._send({"weights": wire.write_value(found, tensors)}, tensors.pack())

    def _perform(self, number: int, calls: list[Any], tensors: bytes) -> None:
        target = self._targets[number]
        for call in wire.read_calls(calls, tensors):
            answer = make_call(target, call, self._file)
            if answer.failure:
                answer = replace(answer, failure=self._explained(answer.failure))
            self._send(*wire.write_answer(answer))

    def _failure(self, error: BaseException) -> Failure:
        return self._explained(failure_of(error, self._file))

    def _explained(self, failure: Failure) -> Failure:
        """Name the limit that was met, where one was."""
        if failure.kind == "MemoryError" or "can't allocate memory" in failure.message:
            return replace(failure, message=f"out of memory: {self._limits['memory']}")
        if failure.kind == "OSError" and os.strerror(errno.EFBIG) in failure.message:
            return replace(failure, message=f"file too large: {self._limits['file']}")
        return failure

    def _say(self, what: str) -> None:
        self._send({"at": what})

    def _send(self, header: dict[str, Any], tensors: bytes = b"") -> None:
        self._channel.sendall(pack_frame(header, tensors))

    def _receive(self) -> tuple[dict[str, Any], bytes] | None:
        left, _ = signal.setitimer(signal.ITIMER_REAL, 0)  # the parent may think as long as it likes
        sizes = self._take(SIZES.size)
        signal.setitimer(signal.ITIMER_REAL, left)
        if sizes is None:
            return None
        header_bytes, tensor_bytes = SIZES.unpack(sizes)
        header, tensors = self._take(header_bytes), self._take(tensor_bytes)
        return None if header is None or tensors is None else (json.loads(header), tensors)

    def _take(self, size: int) -> bytes | None:
        taken = bytearray()
        while len(taken) < size:
            piece = self._channel.recv(size - len(taken))
            if not piece:
                return None
            taken += piece
        return bytes(taken)


def _package_of(folder: str) -> tuple[str, str]:
    """Return the dotted package that a folder is, for relative imports, and where that package lies."""
    package = ""
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, name = os.path.split(folder)
        package = f"{name}.{package}"
    return package, folder


def _found(module: ModuleType, name: str, init: dict[str, Any] | None) -> Any:
    target: Any = module
    for part in name.split("."):
        bound = not isinstance(inspect.getattr_static(target, part, None), (staticmethod, classmethod))
        if inspect.isclass(target) and bound:
            target = instance_of(target, init or {})
        target = getattr(target, part)
    if inspect.isclass(target):
        target = instance_of(target, init or {})
    if is_factory(target):
        return made(target)
    if not callable(target) and framework_of(target) is None:
        raise TypeError(f"it cannot be called, being of type {type(target).__name__}")
    return target
