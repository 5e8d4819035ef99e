"""Linear attention between the features of two images, each with a mask of its own padding."""

from torch import nn
from torch.nn import functional


class LinearAttention(nn.Module):
    """queries, keys, values: (n, length, heads, d); q_mask (n, l), kv_mask (n, s): bool, True = real."""

    def forward(self, queries, keys, values, q_mask=None, kv_mask=None):
        q, k = functional.elu(queries) + 1, functional.elu(keys) + 1
        if q_mask is not None:
            q = q * q_mask[:, :, None, None]
        if kv_mask is not None:
            k = k * kv_mask[:, :, None, None]
            values = values * kv_mask[:, :, None, None]
        total = (q * k.sum(dim=1)[:, None]).sum(dim=-1) + 1e-9  # (n, length, heads)
        summed = (k[..., None] * values[..., None, :]).sum(dim=1)  # (n, heads, d, d)
        return (q[..., None, :] @ summed[:, None])[..., 0, :] / total[..., None]
