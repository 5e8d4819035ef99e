"""Decoder attention of a language model: returns the weights only when they are asked for."""

from typing import Optional, Tuple

import torch
from torch import nn


class DecoderAttention(nn.Module):
    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True):
        super().__init__()
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim**-0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.v_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.q_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)

    def _shape(self, tensor: torch.Tensor, seq_len: int, bsz: int):
        return tensor.view(bsz, seq_len, self.num_heads, self.head_dim).transpose(1, 2).contiguous()

    def forward(
        self,
        hidden_states: torch.Tensor,
        attention_mask: Optional[torch.Tensor] = None,
        output_attentions: bool = False,
    ) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        """Input shape: Batch x Time x Channel. attention_mask: (batch, 1, tgt_len, src_len), where hidden
        positions are indicated by very large negative values; added to the scores."""
        bsz, tgt_len, _ = hidden_states.size()
        proj_shape = (bsz * self.num_heads, -1, self.head_dim)
        query_states = self._shape(self.q_proj(hidden_states) * self.scaling, tgt_len, bsz).view(*proj_shape)
        key_states = self._shape(self.k_proj(hidden_states), tgt_len, bsz).view(*proj_shape)
        value_states = self._shape(self.v_proj(hidden_states), tgt_len, bsz).view(*proj_shape)
        attn_weights = torch.bmm(query_states, key_states.transpose(1, 2))
        attn_weights = attn_weights.view(bsz, self.num_heads, tgt_len, tgt_len)
        if attention_mask is not None:
            attn_weights = attn_weights + attention_mask
            attn_weights = torch.max(attn_weights, torch.tensor(torch.finfo(attn_weights.dtype).min))
        attn_weights = nn.functional.softmax(attn_weights, dim=-1)
        attn_probs = nn.functional.dropout(attn_weights, p=self.dropout, training=self.training)
        attn_output = torch.bmm(attn_probs.flatten(0, 1), value_states)
        attn_output = attn_output.view(bsz, self.num_heads, tgt_len, self.head_dim).transpose(1, 2)
        attn_output = self.out_proj(attn_output.reshape(bsz, tgt_len, self.embed_dim))
        return attn_output, attn_weights if output_attentions else None
