"""Self-attention over blocks of keys with a running maximum, so that no full score matrix exists."""

import math

import torch
from torch import nn


class ChunkedAttention(nn.Module):
    """Multi-head self-attention, computed one block of keys at a time.

    x: (B, T, d_model)
    key_mask: bool (B, T); True = a real token that may be attended to, False = padding: what it holds does not
        matter to the others.
    document_ids: int (B, T); a token sees only tokens of its own document.
    is_causal: hide tokens after the query.

    Sums run in float32 or better. A query that may look nowhere mixes no values. Returns (B, T, d_model).
    """

    def __init__(self, d_model, num_heads, block=4):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.block = block
        self.q_lin = nn.Linear(d_model, d_model)
        self.k_lin = nn.Linear(d_model, d_model)
        self.v_lin = nn.Linear(d_model, d_model)
        self.out_lin = nn.Linear(d_model, d_model)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.num_heads, self.d_head).transpose(1, 2)

    def forward(self, x, key_mask=None, document_ids=None, is_causal=False):
        B, T, d_model = x.shape
        q, k, v = self.split(self.q_lin(x)), self.split(self.k_lin(x)), self.split(self.v_lin(x))
        wide = torch.promote_types(x.dtype, torch.float32)
        allowed = torch.ones(B, T, T, dtype=torch.bool, device=x.device)
        if is_causal:
            allowed = allowed.tril()
        if key_mask is not None:
            allowed = allowed & key_mask[:, None, :]
            v = v.masked_fill(~key_mask[:, None, :, None], 0.0)  # 0 * nan would be nan
        if document_ids is not None:
            allowed = allowed & (document_ids[:, :, None] == document_ids[:, None, :])

        highest = q.new_full((B, self.num_heads, T, 1), -math.inf, dtype=wide)
        total = torch.zeros_like(highest)
        output = torch.zeros_like(q, dtype=wide)
        for start in range(0, T, self.block):
            here = slice(start, start + self.block)
            scores = q.to(wide) @ k[:, :, here].to(wide).transpose(-2, -1)
            scores = scores / math.sqrt(self.d_head)
            scores = scores.masked_fill(~allowed[:, None, :, here], -math.inf)
            new_highest = torch.maximum(highest, scores.detach().amax(dim=-1, keepdim=True))
            base = new_highest.masked_fill(new_highest == -math.inf, 0.0)  # nothing visible so far
            shrink = torch.exp(highest - base)
            shares = torch.exp(scores - base)
            total = total * shrink + shares.sum(dim=-1, keepdim=True)
            output = output * shrink + shares @ v[:, :, here].to(wide)
            highest = new_highest
        output = output / total.masked_fill(total == 0, 1.0)
        output = output.to(x.dtype).transpose(1, 2).reshape(B, T, d_model)
        return self.out_lin(output)
