"""Report b089: https://github.com/dmlc/dgl/issues/2657

What is wrong: the mask covers padded queries as well as padded keys, and a padded query's row is only -inf.
"""

import torch


def set_attention(q, k, v, pair_mask):
    """Attention within padded sets.

    q, k, v: (B, L, d)
    pair_mask: (B, L_q, L_k) bool, True where query and key are both real members
    A padded query has no visible key; rows with no visible key return zeros.
    """
    dot = torch.einsum("bxd,byd->bxy", q, k) / q.shape[-1] ** 0.5
    dot = torch.where(pair_mask, dot, dot.new_tensor(float("-inf")))
    weight = dot.softmax(dim=-1)  # bug
    return torch.einsum("bxy,byd->bxd", weight, v)
