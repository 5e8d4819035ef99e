"""Report b210: https://github.com/om-ai-lab/OmDet/issues/19

What is wrong: nn.MultiheadAttention expects the sequence first unless told otherwise: the samples attend to each other.
"""

from torch import nn


class QuerySelfAttention(nn.Module):
    """Self-attention between the object queries of each image; queries: (batch, num_queries, d_model)."""

    def __init__(self, d_model, nhead, dropout=0.0):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(d_model, nhead, dropout=dropout)  # bug

    def forward(self, queries):
        """queries: (batch, num_queries, d_model)"""
        return self.self_attn(queries, queries, queries, need_weights=False)[0]
