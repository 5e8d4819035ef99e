"""Report b127: https://github.com/649453932/Chinese-Text-Classification-Pytorch/issues/10

What is wrong: the features are viewed as heads without moving an axis, and viewed back: a head is a block of tokens.
"""

import torch
import torch.nn.functional as F
from torch import nn


class Multi_Head_Attention(nn.Module):
    """Self-attention of a text classifier; x: (batch, length, dim_model)."""

    def __init__(self, dim_model, num_head):
        super().__init__()
        self.num_head = num_head
        self.dim_head = dim_model // num_head
        self.fc_Q = nn.Linear(dim_model, dim_model)
        self.fc_K = nn.Linear(dim_model, dim_model)
        self.fc_V = nn.Linear(dim_model, dim_model)
        self.fc = nn.Linear(dim_model, dim_model)

    def scaled_dot_product(self, Q, K, V):
        """Attention over the last two axes, (..., length, dim_head)."""
        attention = F.softmax(torch.matmul(Q, K.transpose(-2, -1)) * self.dim_head**-0.5, dim=-1)
        return torch.matmul(attention, V)

    def forward(self, x):
        batch = x.size(0)
        rows = batch * self.num_head
        qkv = self.fc_Q(x), self.fc_K(x), self.fc_V(x)
        context = self.scaled_dot_product(*(t.view(rows, -1, self.dim_head) for t in qkv)).view(x.shape)  # bug
        return self.fc(context)
