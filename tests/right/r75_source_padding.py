"""A mask that is True on the padding of the source."""

import torch


class CrossAttend(torch.nn.Module):
    """Let a target look at a source: query (B, H, T, d), key and value (B, H, S, d)."""

    def forward(self, query, key, value, src_key_padding_mask=None):
        """src_key_padding_mask: bool (B, S), True = padding."""
        scores = torch.matmul(query, key.mT) * query.shape[-1] ** -0.5
        if src_key_padding_mask is not None:
            hidden = src_key_padding_mask.view(scores.shape[0], 1, 1, -1).expand(-1, scores.shape[1], -1, -1)
            scores = scores.masked_fill(hidden, -torch.inf)
        return torch.matmul(scores.softmax(-1), value)
