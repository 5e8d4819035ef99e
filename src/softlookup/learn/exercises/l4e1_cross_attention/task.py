"""4.1 Who asks, and who answers.

In cross-attention two sequences meet: the target asks, the memory (the source) answers. A translation of 4
tokens looks at a sentence of 7: one row of weights for each target token, one column for each source token.
The layer looks up in several heads; splitting and merging them is written here already, lesson 5 has a closer
look at it.
"""

import math

import torch
from torch import nn


class CrossAttention(nn.Module):
    """Every token of the target looks at the tokens of the memory.

    query_states: (B, T_target, d_model)   memory_states: (B, T_source, d_model)
    memory_mask: boolean (B, T_source), True = a real token of the memory, False = its padding

    Returns: output (B, T_target, d_model) and the weights (B, H, T_target, T_source).
    """

    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.d_head = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj = nn.Linear(d_model, d_model, bias=False)
        self.v_proj = nn.Linear(d_model, d_model, bias=False)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)

    def split_heads(self, x):
        """(B, T, d_model) -> (B, H, T, d_head)"""
        return x.unflatten(-1, (self.num_heads, self.d_head)).transpose(1, 2)

    def merge_heads(self, context):
        """(B, H, T, d_head) -> (B, T, d_model)"""
        return context.transpose(1, 2).flatten(2)

    def forward(self, query_states, memory_states, memory_mask=None):
        raise NotImplementedError("TODO: project, split_heads, look up, merge_heads, project out")


if __name__ == "__main__":
    layer = CrossAttention(d_model=16, num_heads=2)
    memory_mask = torch.tensor([[True] * 7, [True] * 5 + [False] * 2])
    output, weights = layer(torch.randn(2, 4, 16), torch.randn(2, 7, 16), memory_mask)
    print("output", tuple(output.shape), "weights", tuple(weights.shape))
    print("weight on the padding of the second memory:", weights[1, ..., 5:].max().item())
