"""Queries and keys are rotated by their positions (RoPE): scores depend on the distance between them.

Both pairings, halves and neighbours, are right with weights that were trained for them.

Seen in: Su et al. 2021, https://arxiv.org/abs/2104.09864, https://github.com/EleutherAI/gpt-neox/issues/834
"""

import torch
from torch import Tensor

from softlookup.attention import score as dot_products
from softlookup.terms import Case

HINTS = ("rot", "rope", "freq")
VARIANTS = ("halves", "neighbours")


def score(q: Tensor, k: Tensor, case: Case, variant: str) -> Tensor:
    return dot_products(_rotate(q, variant), _rotate(k, variant), case)


def _rotate(x: Tensor, pairing: str) -> Tensor:
    T, d = x.shape[-2:]
    rates = 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.arange(T, dtype=torch.float64)[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, dim=-1) if pairing == "halves" else (x[..., 0::2], x[..., 1::2])
    turned = (a * cos - b * sin, a * sin + b * cos)
    return torch.cat(turned, dim=-1) if pairing == "halves" else torch.stack(turned, dim=-1).flatten(-2)
