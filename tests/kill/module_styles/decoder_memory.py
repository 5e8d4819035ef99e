"""Cross-attention of a decoder to the encoder's memory."""

import math

import torch
from torch import nn


class MemoryAttention(nn.Module):
    """Target tokens look at the memory. The rows of kv_net are the keys of all heads, then the values.

    tgt: (B, T_q, d_model)   memory: (B, T_k, d_memory)
    tgt_key_padding_mask: bool (B, T_q); True = padding of the target: its output is zero.
    memory_key_padding_mask: bool (B, T_k); True = padding of the memory: nobody may look at it, and what it
        holds does not matter.

    A sample without any real memory mixes no values. Returns (B, T_q, d_model).
    """

    def __init__(self, d_model, d_memory, n_head, d_head, dropout=0.1):
        super().__init__()
        self.n_head = n_head
        self.d_head = d_head
        self.q_net = nn.Linear(d_model, n_head * d_head, bias=False)
        self.kv_net = nn.Linear(d_memory, 2 * n_head * d_head, bias=False)
        self.o_net = nn.Linear(n_head * d_head, d_model, bias=False)
        self.dropatt = nn.Dropout(dropout)

    def forward(self, tgt, memory, tgt_key_padding_mask=None, memory_key_padding_mask=None):
        B, T_q = tgt.shape[:2]
        T_k = memory.shape[1]
        head_q = self.q_net(tgt).view(B, T_q, self.n_head, self.d_head)
        head_k, head_v = torch.chunk(self.kv_net(memory), 2, dim=-1)
        head_k = head_k.reshape(B, T_k, self.n_head, self.d_head)
        head_v = head_v.reshape(B, T_k, self.n_head, self.d_head)

        attn_score = torch.einsum("bind,bjnd->bnij", head_q, head_k)
        attn_score = attn_score / math.sqrt(self.d_head)
        hidden = torch.zeros(B, T_k, dtype=torch.bool, device=tgt.device)
        if memory_key_padding_mask is not None:
            hidden = memory_key_padding_mask
        empty = hidden.all(dim=-1)[:, None, None, None]
        attn_score = attn_score.masked_fill(hidden[:, None, None, :], -math.inf)
        attn_score = attn_score.masked_fill(empty, 0.0)
        attn_prob = torch.softmax(attn_score, dim=-1)
        attn_prob = self.dropatt(attn_prob.masked_fill(empty, 0.0))

        head_v = head_v.masked_fill(hidden[:, :, None, None], 0.0)  # 0 * nan would be nan
        attn_vec = torch.einsum("bnij,bjnd->bind", attn_prob, head_v)
        attn_vec = attn_vec.reshape(B, T_q, self.n_head * self.d_head)
        output = self.o_net(attn_vec)
        if tgt_key_padding_mask is not None:
            output = output.masked_fill(tgt_key_padding_mask[:, :, None], 0.0)
        return output
