"""The attention problems that the benchmarks time: one function a mask, from sizes to a mask.

All numbers are float32 and random, and the same in each run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from softlookup import masks
from softlookup.masks import Mask

D_HEAD = 64
BLOCK = 128


@dataclass(frozen=True)
class Problem:
    """q, k, v [B, H, T, d] of one call, and a mask, a bool tensor, or None: everybody sees everything."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | Tensor | None

    @cached_property
    def dense(self) -> Tensor | None:
        """The mask as users hand it to SDPA: bool [B or 1, 1, T, T]."""
        tokens = self.q.shape[-2]
        if isinstance(self.mask, Mask):
            return self.mask.dense(tokens, tokens, device=self.q.device).contiguous()
        return self.mask

    @property
    def visible_share(self) -> float:
        """The share of pairs of query and key that the mask shows."""
        return 1.0 if self.dense is None else self.dense.sum().item() / self.dense.numel()

    def requiring_gradients(self) -> Problem:
        """Return the same problem with gradients asked for."""
        leaves = (tensor.detach().clone().requires_grad_() for tensor in (self.q, self.k, self.v))
        return Problem(*leaves, self.mask)


def problem(
    mask: Mask | Tensor | None,
    tokens: int,
    *,
    batch: int = 1,
    heads: int = 8,
    dtype: torch.dtype = torch.float32,
) -> Problem:
    """Return random queries, keys and values [batch, heads, tokens, 64] under a mask."""
    make = torch.Generator().manual_seed(64)
    q, k, v = (torch.randn(batch, heads, tokens, D_HEAD, generator=make).to(dtype) for _ in range(3))
    return Problem(q, k, v, mask)


def everybody(tokens: int) -> None:
    """Every query sees every key."""


def causal(tokens: int) -> Mask:
    """Plain causal."""
    return masks.causal()


def causal_padding(tokens: int, batch: int = 8) -> Mask:
    """Causal, in a batch whose samples are half full on average, from one eighth to seven eighths."""
    lengths = [round(tokens * (1 + 6 * n / (batch - 1)) / 8) for n in range(batch)]
    return masks.causal() & masks.padding(lengths)


def documents(tokens: int, number: int = 16) -> Mask:
    """Packed documents of equal length, each causal."""
    ids = torch.arange(tokens) * number // tokens
    return masks.documents(ids[None]) & masks.causal()


def uneven_documents(tokens: int, number: int = 16) -> Mask:
    """Packed documents of random lengths, each causal."""
    cuts = torch.randperm(tokens - 1, generator=torch.Generator().manual_seed(16))[: number - 1] + 1
    return masks.packed([0, *sorted(cuts.tolist()), tokens]) & masks.causal()


def window(tokens: int, width: int = 256) -> Mask:
    """Causal sliding window of 256 keys."""
    return masks.sliding_window(width)


def window_each_side(tokens: int) -> Mask:
    """Window of 128 keys to each side."""
    return masks.sliding_window(128, "each side")


def chunks(tokens: int) -> Mask:
    """Chunks of 512, each causal."""
    return masks.chunked(512)


def prefix(tokens: int) -> Mask:
    """A prefix of one quarter that everybody sees, then causal."""
    return masks.prefix_lm(tokens // 4)


def window_and_sinks(tokens: int) -> Mask:
    """Causal window of 256 keys, and the first 4 keys for everybody: two intervals a query."""
    first = torch.arange(tokens) < 4
    return masks.causal() & (masks.sliding_window(256) | Mask.from_tensor(first[None, None, None]))


def blocks(tokens: int, share: float = 0.25) -> Tensor:
    """A dense tensor [1, 1, T, T]: a quarter of the blocks of 128 is visible, the diagonal among them."""
    side = -(-tokens // BLOCK)
    order = torch.rand(side, side, generator=torch.Generator().manual_seed(25))
    order.fill_diagonal_(-1.0)
    visible = torch.zeros(side * side, dtype=torch.bool)
    visible[order.flatten().argsort()[: max(side, round(share * side * side))]] = True
    wide = visible.view(side, side).repeat_interleave(BLOCK, 0).repeat_interleave(BLOCK, 1)
    return wide[None, None, :tokens, :tokens].contiguous()


def torn_blocks(tokens: int) -> Tensor:
    """The same blocks, of which every second entry is hidden at random: no block is visible as a whole."""
    torn = torch.rand(tokens, tokens, generator=torch.Generator().manual_seed(26)) < 0.5
    return blocks(tokens) & (torn | torch.eye(tokens, dtype=torch.bool))


#: For the curve of cost against T: a path of attend() -> its mask.
PATHS: dict[str, Callable[[int], Mask | Tensor | None]] = {
    "everybody": everybody,
    "causal": causal,
    "prefix": prefix,
    "blocks": blocks,
    "documents": lambda tokens: documents(tokens, max(1, tokens // 512)),
    "chunks": chunks,
    "window": window,
    "window and sinks": window_and_sinks,
}
