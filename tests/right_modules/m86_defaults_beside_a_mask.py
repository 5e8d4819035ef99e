"""Heads share their values, and words about the defaults of numbers stand before those about a mask."""

import torch
from torch import nn


class InterpretableAttention(nn.Module):
    """Attention whose heads are averaged, so that one map explains the output.

    Parameters
    ----------
    n_head : int
        Number of heads.
    d_model : int
        Width of the model.
    dropout : float, optional
        Rate of dropout, by default 0.0
    mask_bias : float, optional
        What the mask puts in place of a score, by default -inf.
    """

    def __init__(self, n_head, d_model, dropout=0.0, mask_bias=-torch.inf):
        super().__init__()
        d_head = d_model // n_head
        self.mask_bias = mask_bias
        self.dropout = nn.Dropout(dropout)
        self.v_layer = nn.Linear(d_model, d_head)
        self.q_layers = nn.ModuleList(nn.Linear(d_model, d_head) for _ in range(n_head))
        self.k_layers = nn.ModuleList(nn.Linear(d_model, d_head) for _ in range(n_head))
        self.w_h = nn.Linear(d_head, d_model, bias=False)

    def forward(self, q, k, v, mask=None):
        values, heads = self.v_layer(v), []
        for to_q, to_k in zip(self.q_layers, self.k_layers, strict=True):
            scores = to_q(q) @ to_k(k).transpose(1, 2) / values.shape[-1] ** 0.5
            if mask is not None:
                scores = scores.masked_fill(mask, self.mask_bias)
            heads.append(self.dropout(scores.softmax(dim=-1)) @ values)
        return self.w_h(torch.stack(heads).mean(dim=0))
