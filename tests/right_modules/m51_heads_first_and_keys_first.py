"""Number of heads before the size; keys and values before the queries; a byte mask of real tokens. Trap f26."""

import math

import torch
from torch import Tensor, nn


class MultiHeadedAttention(nn.Module):
    """Multi-Head Attention as in "Attention is All You Need"."""

    def __init__(self, num_heads: int, size: int, dropout: float = 0.1) -> None:
        super().__init__()
        assert size % num_heads == 0
        self.head_size = head_size = size // num_heads
        self.model_size = size
        self.num_heads = num_heads
        self.k_layer = nn.Linear(size, num_heads * head_size)
        self.v_layer = nn.Linear(size, num_heads * head_size)
        self.q_layer = nn.Linear(size, num_heads * head_size)
        self.output_layer = nn.Linear(size, size)
        self.softmax = nn.Softmax(dim=-1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, k: Tensor, v: Tensor, q: Tensor, mask: Tensor = None):
        """
        :param k: keys   [batch_size, seq_len, size]
        :param v: values [batch_size, seq_len, size]
        :param q: query  [batch_size, query_len, size]
        :param mask: optional mask [batch_size, 1, seq_len], zero where a key is padding
        :return: context vectors [batch_size, query_len, size] and attention probabilities, averaged over heads
        """
        batch_size, key_len, query_len = k.size(0), k.size(1), q.size(1)
        k = self.k_layer(k).view(batch_size, -1, self.num_heads, self.head_size).transpose(1, 2)
        v = self.v_layer(v).view(batch_size, -1, self.num_heads, self.head_size).transpose(1, 2)
        q = self.q_layer(q).view(batch_size, -1, self.num_heads, self.head_size).transpose(1, 2)
        q = q / math.sqrt(self.head_size)
        scores = torch.matmul(q, k.transpose(2, 3))
        if mask is not None:
            scores = scores.masked_fill(~mask.bool().unsqueeze(1), float("-inf"))
        attention_probs = self.dropout(self.softmax(scores))
        context = torch.matmul(attention_probs, v).transpose(1, 2).contiguous()
        output = self.output_layer(context.view(batch_size, -1, self.num_heads * self.head_size))
        return output, attention_probs.view(batch_size, self.num_heads, query_len, key_len).mean(1)
