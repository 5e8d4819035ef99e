"""Report b190: https://github.com/wenet-e2e/wenet/issues/2699

What is wrong: the rate of the dropout goes into the fused call in eval mode as well, so recognition is random.
"""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadedAttention(nn.Module):
    """Attention of a speech encoder."""

    def __init__(self, n_head: int, n_feat: int, dropout_rate: float):
        super().__init__()
        self.d_k = n_feat // n_head
        self.h = n_head
        self.linear_q = nn.Linear(n_feat, n_feat)
        self.linear_k = nn.Linear(n_feat, n_feat)
        self.linear_v = nn.Linear(n_feat, n_feat)
        self.linear_out = nn.Linear(n_feat, n_feat)
        self.dropout_rate = dropout_rate

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor):
        """query: (batch, time1, n_feat)   key, value: (batch, time2, n_feat)

        mask: (batch, 1, time2) or (batch, time1, time2) bool, True = may attend
        """
        n_batch = query.size(0)
        q = self.linear_q(query).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(key).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(value).view(n_batch, -1, self.h, self.d_k).transpose(1, 2)
        mask = mask.unsqueeze(1)
        output = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout_rate)  # bug
        output = output.transpose(1, 2).contiguous().view(n_batch, -1, self.h * self.d_k)
        return self.linear_out(output)
