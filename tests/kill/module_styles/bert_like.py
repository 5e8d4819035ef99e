"""Attention for encoders and decoders: it looks at its own tokens, or at an encoder's when they are given."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class EncoderDecoderAttention(nn.Module):
    """Self-attention, or cross-attention when encoder_hidden_states are given.

    hidden_states: (B, T_q, hidden_size)
    attention_mask: int or bool (B, T_q); 1 = a token of hidden_states that may be attended to, 0 = padding.
    encoder_hidden_states: (B, T_k, hidden_size)
    encoder_attention_mask: int or bool (B, T_k); 1 = a token of the encoder that may be attended to, 0 = padding.

    A query that may look nowhere mixes no values.
    Returns (output, weights) with output (B, T_q, hidden_size) and, if output_attentions is set, weights
    (B, num_attention_heads, T_q, T_k), else None. The output is the same.
    """

    def __init__(self, hidden_size, num_attention_heads, attention_probs_dropout_prob=0.1):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = hidden_size // num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.dropout = nn.Dropout(attention_probs_dropout_prob)

    def transpose_for_scores(self, x):
        new_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(new_shape).permute(0, 2, 1, 3)

    def forward(
        self,
        hidden_states,
        attention_mask=None,
        encoder_hidden_states=None,
        encoder_attention_mask=None,
        output_attentions=False,
    ):
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        current_states = hidden_states
        if encoder_hidden_states is not None:
            current_states = encoder_hidden_states
            attention_mask = encoder_attention_mask
        key_layer = self.transpose_for_scores(self.key(current_states))
        value_layer = self.transpose_for_scores(self.value(current_states))
        if attention_mask is not None:
            attention_mask = attention_mask[:, None, None, :].bool()

        attention_probs = None
        if output_attentions:
            scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
            scores = scores / math.sqrt(self.attention_head_size)
            if attention_mask is not None:
                scores = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
            attention_probs = F.softmax(scores, dim=-1)
            if attention_mask is not None:
                attention_probs = attention_probs * attention_mask.any(dim=-1, keepdim=True)
            attention_probs = self.dropout(attention_probs)
            context_layer = torch.matmul(attention_probs, value_layer)
        else:
            context_layer = F.scaled_dot_product_attention(
                query_layer,
                key_layer,
                value_layer,
                attn_mask=attention_mask,
                dropout_p=self.dropout.p if self.training else 0.0,
            )
        context_layer = context_layer.permute(0, 2, 1, 3).flatten(-2)
        return self.dense(context_layer), attention_probs
