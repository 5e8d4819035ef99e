"""Report b095: https://github.com/rwth-i6/returnn/issues/576

What is wrong: `where` replaces the NaN in the forward pass; the branch that was not taken still sends NaN backwards.
"""

import torch


def attention(q, k, v, bias):
    """q, k, v: [B, H, T, D]; bias: additive [T_q, T_k], 0 = visible, -inf = hidden.

    Rows with no visible key return zeros.
    """
    energy = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    p = torch.softmax(energy + bias.to(energy.dtype), dim=-1)  # bug
    p = torch.where(torch.isnan(p), torch.zeros_like(p), p)
    return torch.matmul(p, v)
