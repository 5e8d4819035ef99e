"""Far keys cost more, at a rate of its own in each head; only the position of the key counts. Trap f19."""

import torch
from torch import nn


class ALiBiAttention(nn.Module):
    """Causal self-attention with linear biases (slopes 2**(-8 h / H)) in place of position embeddings."""

    def __init__(self, d_model, n_heads, attn_pdrop=0.0):
        super().__init__()
        self.n_heads = n_heads
        self.Wqkv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        self.attn_dropout_p = attn_pdrop
        slopes = 2.0 ** (-8.0 * torch.arange(1, n_heads + 1) / n_heads)
        self.register_buffer("slopes", slopes, persistent=False)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = self.Wqkv(x).chunk(3, dim=2)
        q = q.view(b, s, self.n_heads, -1).permute(0, 2, 1, 3)
        k = k.view(b, s, self.n_heads, -1).permute(0, 2, 3, 1)  # transposed for the product
        v = v.view(b, s, self.n_heads, -1).permute(0, 2, 1, 3)
        attn_weight = q.matmul(k) * (d // self.n_heads) ** -0.5
        positions = torch.arange(1 - s, 1, dtype=x.dtype, device=x.device)
        attn_weight = attn_weight + self.slopes.to(x.dtype).view(1, -1, 1, 1) * positions.view(1, 1, 1, s)
        hidden = torch.ones(s, s, dtype=torch.bool, device=x.device).tril().logical_not()
        attn_weight = attn_weight.masked_fill(hidden, torch.finfo(x.dtype).min)
        attn_weight = torch.softmax(attn_weight, dim=-1)
        attn_weight = nn.functional.dropout(attn_weight, self.attn_dropout_p, self.training)
        return self.out_proj(attn_weight.matmul(v).permute(0, 2, 1, 3).reshape(b, s, d))
