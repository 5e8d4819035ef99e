"""A model is asked in evaluation mode and in float32, and is left exactly as it was found."""

from __future__ import annotations

import logging
import random
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from softlookup.checker.keeping import Kept


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
        kept = Kept(model, parameters=False)
        undo.callback(lambda: kept.restore(thoroughly=True))
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
def in_dtype(model: nn.Module, dtype: torch.dtype, *, buffers: bool = False) -> Iterator[None]:
    """Let the floating parameters have another dtype while the block runs.

    buffers: the buffers too; they stay otherwise, as tables of rotary positions are float32 on purpose
    """
    kept = []
    try:
        for tensor in (*model.parameters(), *(model.buffers() if buffers else ())):
            if tensor.is_floating_point() and tensor.dtype != dtype:
                kept.append((tensor, tensor.data))
                tensor.data = tensor.data.to(dtype)
        yield
    finally:
        for tensor, data in kept:
            tensor.data = data
