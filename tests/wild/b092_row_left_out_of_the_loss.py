"""Report b092: https://github.com/pytorch/pytorch/issues/41508

What is wrong: rows that see nothing come out as NaN and are blanked afterwards; the gradient of every weight is NaN.
"""

from torch import nn


class GraphAttention(nn.Module):
    """Attention along the edges of a graph; nodes with no edge get zeros. x: (batch, nodes, embed_dim)."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)

    def forward(self, x, no_edge):
        """x: (batch, nodes, embed_dim)

        no_edge: (nodes, nodes) bool mask, True = may not attend; a row may be True throughout
        Returns the output and the weights (batch, nodes, nodes), averaged over the heads.
        """
        lonely = no_edge.all(dim=-1)
        out, weights = self.attention(x, x, x, attn_mask=no_edge, need_weights=True)  # bug
        out = out.masked_fill(lonely[:, None], 0.0)
        return out, weights.masked_fill(lonely[:, None], 0.0)
