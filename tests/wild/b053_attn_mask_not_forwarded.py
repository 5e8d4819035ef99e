"""Report b053: https://github.com/facebookresearch/fairseq/issues/1682

What is wrong: the layer takes attn_mask and calls its attention without it.
"""

from torch import nn


class EncoderSelfAttention(nn.Module):
    """The attention of an encoder layer; x: (seq_len, batch, embed_dim)."""

    def __init__(self, embed_dim, attention_heads, dropout=0.0):
        super().__init__()
        self.self_attn = nn.MultiheadAttention(embed_dim, attention_heads, dropout=dropout)

    def forward(self, x, attn_mask=None):
        """x: (seq_len, batch, embed_dim)

        attn_mask: (seq_len, seq_len) bool, True at [i, j] means that token i does not see token j
        """
        if attn_mask is not None:
            attn_mask = attn_mask.bool()
        x, _ = self.self_attn(query=x, key=x, value=x, need_weights=False)  # bug
        return x
