"""Report b072: https://github.com/NVIDIA/TransformerEngine/issues/629

What is wrong: the decoder hands the window of its causal self-attention, (-1, 0), to the cross-attention as well.
"""

import torch
from torch import nn


class MultiheadAttention(nn.Module):
    """Attention within a window around the query: window_size = (keys before it, keys after it), -1 = all of them."""

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.heads = num_attention_heads
        self.query_layer = nn.Linear(hidden_size, hidden_size)
        self.key_value = nn.Linear(hidden_size, 2 * hidden_size)
        self.proj = nn.Linear(hidden_size, hidden_size)

    def forward(self, hidden_states, encoder_output, window_size=(-1, -1)):
        key, value = self.key_value(encoder_output).chunk(2, dim=-1)
        query = self.query_layer(hidden_states)
        q, k, v = (x.unflatten(-1, (self.heads, -1)).transpose(1, 2) for x in (query, key, value))
        scores = q @ k.mT / q.shape[-1] ** 0.5
        distance = torch.arange(k.shape[2]) - torch.arange(q.shape[2])[:, None]
        before, after = (window if window >= 0 else k.shape[2] + q.shape[2] for window in window_size)
        scores = scores.masked_fill((distance > after) | (distance < -before), float("-inf"))
        return self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class DecoderCrossAttention(nn.Module):
    """Cross-attention of a decoder layer: every token of the target sees the whole encoder output."""

    def __init__(self, hidden_size, num_attention_heads):
        super().__init__()
        self.window_size = (-1, 0)  # of the self-attention of this layer: each token and those before it
        self.inter_attention = MultiheadAttention(hidden_size, num_attention_heads)

    def forward(self, hidden_states, encoder_output):
        """hidden_states: (batch, target_len, hidden_size)   encoder_output: (batch, source_len, hidden_size)"""
        return self.inter_attention(hidden_states, encoder_output, window_size=self.window_size)  # bug
