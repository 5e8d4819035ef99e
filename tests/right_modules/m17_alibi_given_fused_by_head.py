"""The rows of the fused projection are grouped by head, (head, 3, d); the bias by distance is given. Trap f22."""

import torch
from torch import nn


class BiasedAttention(nn.Module):
    def __init__(self, hidden_size: int, n_head: int, attention_dropout: float = 0.0):
        super().__init__()
        self.num_heads = n_head
        self.head_dim = hidden_size // n_head
        self.inv_norm_factor = self.head_dim**-0.5
        self.query_key_value = nn.Linear(hidden_size, 3 * hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.attention_dropout = nn.Dropout(attention_dropout)

    def forward(self, hidden_states, alibi, attention_mask):
        """hidden_states: (batch, length, hidden_size)

        alibi: (batch * heads, 1, length): slope times key position, is added to the scaled scores
        attention_mask: bool (batch, 1, length, length), True where a query must not look
        """
        B, T, _ = hidden_states.shape
        fused = self.query_key_value(hidden_states).view(B, T, self.num_heads, 3, self.head_dim)
        q, k, v = fused[..., 0, :], fused[..., 1, :], fused[..., 2, :]
        q = q.transpose(1, 2).reshape(B * self.num_heads, T, self.head_dim)
        k = k.permute(0, 2, 3, 1).reshape(B * self.num_heads, self.head_dim, T)
        v = v.transpose(1, 2).reshape(B * self.num_heads, T, self.head_dim)
        scores = alibi.baddbmm(batch1=q, batch2=k, beta=1.0, alpha=self.inv_norm_factor)
        scores = scores.view(B, self.num_heads, T, T)
        scores = scores.masked_fill(attention_mask, torch.finfo(scores.dtype).min)
        weights = self.attention_dropout(scores.softmax(dim=-1)).view(B * self.num_heads, T, T)
        context = torch.bmm(weights, v).view(B, self.num_heads, T, self.head_dim)
        return self.dense(context.transpose(1, 2).reshape(B, T, -1))
