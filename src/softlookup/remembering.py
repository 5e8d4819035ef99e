"""A cache for tensors that outlive the transform of torch.func in which they are asked for.

Inside ``torch.func.grad`` or ``vmap`` every new tensor belongs to the transform, and is dead when it ends.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

P = ParamSpec("P")
T = TypeVar("T")


def remembered(maxsize: int) -> Callable[[Callable[P, T]], functools._lru_cache_wrapper[T]]:
    """Return what makes a function remember its last answers, computed as if outside of all transforms.

    >>> import torch
    >>> @remembered(maxsize=4)
    ... def positions(n: int) -> torch.Tensor:
    ...     return torch.arange(n) * 2
    >>> torch.func.grad(lambda x: (x * positions(3)).sum())(torch.ones(3)).tolist()
    [0.0, 2.0, 4.0]
    >>> positions(3).tolist(), positions.cache_info().hits
    ([0, 2, 4], 1)
    """

    def of(function: Callable[P, T]) -> functools._lru_cache_wrapper[T]:
        @functools.lru_cache(maxsize=maxsize)
        @functools.wraps(function)
        def outside(*args: P.args, **kwargs: P.kwargs) -> T:
            with temporarily_clear_interpreter_stack():
                return function(*args, **kwargs)

        return outside

    return of
