"""Attention that no known function computes, declared by the user: a kernel of one's own, or of a library.

Where it lies in the model is known then, so a hook on that module alone is enough.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from softlookup.live.uncopied import Uncopied

#: (module, args, kwargs, output) -> q, k and, where there are any, mask and scale, as ``attend`` takes them.
Declare = Callable[[nn.Module, tuple[Any, ...], dict[str, Any], Any], Mapping[str, Any]]
#: Takes a path, the module, what was declared of a call, and the output.
Hear = Callable[[str, nn.Module, Callable[[], Mapping[str, Any]], Any], None]


class _Hook(Uncopied):
    """A forward hook that tells of a call."""

    def __init__(self, hear: Hear | None = None, path: str = "", declare: Declare | None = None) -> None:
        self.hear, self.path, self.declare = hear, path, declare

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        hear, declare = self.hear, self.declare
        if hear is not None and declare is not None and not torch.compiler.is_compiling():
            hear(self.path, module, lambda: declare(module, args, kwargs, output), output)


@contextmanager
def declared_calls(model: nn.Module, declared: Mapping[str, Declare], hear: Hear) -> Iterator[list[str]]:
    """Tell of the calls of declared modules while the block runs; gives their paths.

    declared: by pattern of the path, or name of the class
    """
    handles, paths = [], []
    try:
        for path, module in model.named_modules():
            for pattern, declare in declared.items():
                if fnmatch.fnmatchcase(path, pattern) or type(module).__name__ == pattern:
                    hook = _Hook(hear, path, declare)
                    handles.append(module.register_forward_hook(hook, with_kwargs=True))
                    paths.append(path)
                    break
        yield paths
    finally:
        for handle in handles:
            handle.remove()
