"""A model is asked in evaluation mode and in float32, and is left exactly as it was found."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn


@contextmanager
def left_as_it_was(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode and float32 for a block, and undo all of it, also after an exception.

    Put back: every training flag and attribute, every buffer with its contents, the tensors of all parameters
    (their numbers are never written), and the state of the random generators.
    """
    with ExitStack() as undo:
        devices = {it.device for it in model.parameters() if it.device.type == "cuda"}
        undo.enter_context(torch.random.fork_rng(devices=sorted(it.index or 0 for it in devices)))
        undo.callback(random.setstate, random.getstate())
        undo.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        undo.enter_context(_quiet("transformers"))
        undo.enter_context(training_flags_kept(model))
        undo.enter_context(_attributes_kept(model))
        undo.enter_context(_buffers_kept(model))
        undo.enter_context(in_dtype(model, torch.float32))
        model.eval()
        yield


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Let a logger say errors only: what it warns of is asked on purpose."""
    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def training_flags_kept(model: nn.Module) -> Iterator[None]:
    """Put the training flag of every module back when the block ends."""
    flags = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in flags:
            module.training = training


@contextmanager
def in_dtype(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Let the floating parameters have another dtype while the block runs.

    Buffers stay: tables of rotary positions are kept in float32 on purpose.
    """
    kept = []
    try:
        for parameter in model.parameters():
            if parameter.is_floating_point() and parameter.dtype != dtype:
                kept.append((parameter, parameter.data))
                parameter.data = parameter.data.to(dtype)
        yield
    finally:
        for parameter, data in kept:
            parameter.data = data


@contextmanager
def _attributes_kept(model: nn.Module) -> Iterator[None]:
    """Put back what a forward wrote on its modules: plain attributes, and hooks.

    transformers leaves hooks behind once attention weights were asked for, and an attribute that says so.
    """
    kept = [(module, dict(vars(module)), _hooks(module)) for module in model.modules()]
    try:
        yield
    finally:
        for module, attributes, hooks in kept:
            vars(module).clear()
            vars(module).update(attributes)
            for name, before in hooks.items():
                now = getattr(module, name)
                now.clear()
                now.update(before)


def _hooks(module: nn.Module) -> dict[str, dict[int, object]]:
    """Return the dictionaries of hooks of a module, copied."""
    return {name: dict(value) for name, value in vars(module).items() if name in _HOOKS}


_HOOKS = (
    "_forward_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_forward_pre_hooks",
    "_forward_pre_hooks_with_kwargs",
)


@contextmanager
def _buffers_kept(model: nn.Module) -> Iterator[None]:
    """Put every buffer back: the same tensor, with the same contents."""
    kept = [
        (module, name, buffer, buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        yield
    finally:
        for module, name, buffer, contents in kept:
            module._buffers[name] = buffer
            if not torch.equal(buffer, contents):
                with torch.no_grad():
                    buffer.copy_(contents)
