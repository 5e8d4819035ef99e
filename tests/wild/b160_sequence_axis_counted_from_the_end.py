"""Report b160: https://github.com/facebookresearch/xformers/issues/841

What is wrong: tensors are (B, M, H, K) here, and the rotation takes axis -2 for the sequence.
"""

import torch
from torch import nn


class RotaryAttention(nn.Module):
    """Self-attention with rotary positions and heads after the sequence, (B, M, H, K); x: (B, M, dim)."""

    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, dim // num_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def rotary(self, x, seq_dimension=1):
        """Turn neighbouring features of x by their position along seq_dimension."""
        seq_len = x.shape[seq_dimension]
        theta = 10000.0 ** (-torch.arange(0, self.head_dim, 2, device=x.device) / self.head_dim)
        angle = torch.outer(torch.arange(seq_len, device=x.device), theta)
        shape = [1] * (x.ndim - 1) + [angle.shape[-1]]
        shape[seq_dimension] = seq_len
        cos, sin = angle.cos().view(shape), angle.sin().view(shape)
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def forward(self, x):
        B, M, _ = x.shape
        q, k, v = (w(x).view(B, M, self.num_heads, self.head_dim) for w in (self.wq, self.wk, self.wv))
        q, k = (self.rotary(t, seq_dimension=-2) for t in (q, k))  # bug
        weights = torch.einsum("bmhk,bnhk->bhmn", q, k).mul(self.head_dim**-0.5).softmax(dim=-1)
        return self.wo(torch.einsum("bhmn,bnhk->bmhk", weights, v).flatten(2))
