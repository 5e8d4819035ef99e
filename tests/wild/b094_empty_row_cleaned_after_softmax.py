"""Report b094: https://github.com/lucidrains/nGPT-pytorch/issues/11

What is wrong: the empty row is zeroed after the softmax, but the gradient still passes through a softmax of only -inf.
"""

import torch


class SafeAttend(torch.nn.Module):
    """Attention over (b, h, n, d) that returns zeros for a query with no visible key."""

    def forward(self, q, k, v, mask):
        """mask: bool (i, j), True = may attend."""
        sim = torch.einsum("bhid,bhjd->bhij", q, k) * q.shape[-1] ** -0.5
        bias = sim.new_zeros(mask.shape).masked_fill(~mask, float("-inf"))
        attn = (sim + bias).softmax(dim=-1)  # bug
        attn = attn.masked_fill(~mask.any(dim=-1, keepdim=True), 0.0)
        return torch.einsum("bhij,bhjd->bhid", attn, v)
