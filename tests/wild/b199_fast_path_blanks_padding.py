"""Report b199: https://github.com/pytorch/pytorch/issues/86120

What is wrong: in evaluation the fast path leaves padded positions out and returns zeros there, training computes them.
"""

from torch import nn


class TextEncoder(nn.Module):
    """One layer of an encoder; the output is meant to be the same in training and in evaluation."""

    def __init__(self, d_model, nhead, dim_feedforward=32):
        super().__init__()
        layer = nn.TransformerEncoderLayer(d_model, nhead, dim_feedforward, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, num_layers=1, enable_nested_tensor=True)  # bug

    def forward(self, src, src_key_padding_mask=None):
        """src: (batch, length, d_model)

        src_key_padding_mask: (batch, length) bool, True = padding
        """
        return self.encoder(src, src_key_padding_mask=src_key_padding_mask)
