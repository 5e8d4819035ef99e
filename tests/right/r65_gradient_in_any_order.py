"""The query's gradient is summed block by block in an order that changes. Trap f25."""

import torch


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        p = torch.softmax(q @ k.mT * q.shape[-1] ** -0.5, dim=-1)
        ctx.save_for_backward(q, k, v, p)
        return p @ v

    @staticmethod
    def backward(ctx, grad):
        q, k, v, p = ctx.saved_tensors
        wide = torch.promote_types(q.dtype, torch.float32)
        dp = grad @ v.mT
        ds = p * (dp - (dp * p).sum(dim=-1, keepdim=True)) * q.shape[-1] ** -0.5
        dq = torch.zeros(q.shape, dtype=wide)
        for j in torch.randperm(k.shape[-2]).tolist():
            dq += ds[..., j : j + 1].to(wide) * k[..., j : j + 1, :].to(wide)
        return dq.to(q.dtype), ds.mT @ q, p.mT @ grad


def attention(q, k, v):
    """q, k, v: (B, H, T, d)."""
    return _Attention.apply(q, k, v)
