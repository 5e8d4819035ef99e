"""What can be told of a call at a glance, before anything is looked up in the table of ``paths``."""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.masks import Rule


def plain(mask: object, q_len: int, k_len: int) -> bool:
    """Say whether ``is_causal`` can say this mask: none, or causal from the first key."""
    match mask:
        case None | Rule(name="causal_top_left"):
            return True
        case Rule(name="causal_bottom_right"):
            return q_len == k_len
    return False


def needs_no_look(q: Tensor, k: Tensor, v: Tensor, mask: object, scale: float | None) -> bool:
    """Say whether the flag is all that a call needs, at a glance: what the table would say, sooner.

    Right after a large product the Python on the way through the table comes from cold memory and takes up
    to ten times as long as in a loop of its own: 2 to 5 % of attention at T 512 to 2048.
    """
    return (
        isinstance(q, Tensor)
        and isinstance(k, Tensor)
        and isinstance(v, Tensor)
        and q.shape == k.shape == v.shape
        and q.dim() == 4
        and plain(mask, q.shape[-2], k.shape[-2])
        and q.dtype == k.dtype == v.dtype
        and q.device == k.device == v.device
        and q.is_floating_point()
        and (scale is None or scale > 0)
        and q.numel() > 0
        and not is_mapped(q)
        and not is_mapped(k)
        and not is_mapped(v)
    )


def is_mapped(x: Tensor) -> bool:
    """Say whether vmap runs over a tensor, also below gradients that are taken inside of it."""
    if torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is None:
        return False
    while torch._C._functorch.is_gradtrackingtensor(x):
        x = torch._C._functorch.get_unwrapped(x)
    return torch._C._functorch.is_batchedtensor(x)
