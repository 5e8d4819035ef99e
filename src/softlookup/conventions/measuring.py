"""Ask the real library whom a query looks at: its weights, read off its output for values that are marks."""

from __future__ import annotations

import torch
from torch import Tensor

from softlookup.conventions.discover import Convention
from softlookup.conventions.spelling import Arguments, Sizes

WIDTH = 16  # d_head of q, k and v: every library takes it, and as many keys can be told apart


def weights_by(convention: Convention, arguments: Arguments, sizes: Sizes, *, seed: int = 0) -> Tensor:
    """Return the weights [B, H, T_q, T_k] that the real call gives every key; T_k is at most ``WIDTH``.

    q and k come from ``problem``. Every value is a one-hot mark of its key, so the output is the weights.
    """
    q, k, v = problem(sizes, seed)
    assert convention.run is not None, convention.name
    return convention.run(q, k, v, arguments)[..., : k.shape[-2]].detach()


def problem(sizes: Sizes, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return q [B, H, T_q, 16], k [B, H, T_k, 16] and v, in which key j carries a 1 in place j."""
    batch_size, num_heads = sizes.batch_size or 1, sizes.num_heads or 1
    q_len, k_len = sizes.of("q_len", "a measurement"), sizes.of("k_len", "a measurement")
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(batch_size, num_heads, q_len, WIDTH, generator=generator)
    k = torch.randn(batch_size, num_heads, k_len, WIDTH, generator=generator)
    v = torch.eye(k_len, WIDTH).expand(batch_size, num_heads, k_len, WIDTH).contiguous()
    return q, k, v
