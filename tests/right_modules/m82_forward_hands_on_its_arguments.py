"""Self-attention and cross-attention share a parent, and hand on to it whatever they are given."""

from torch import nn


class _Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, context=None, allowed_mask=None):
        context = x if context is None else context
        q, k, v = self.split(self.to_q(x)), self.split(self.to_k(context)), self.split(self.to_v(context))
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
        if allowed_mask is not None:
            scores = scores.masked_fill(~allowed_mask[:, None, None, :], float("-inf"))
        out = scores.softmax(dim=-1) @ v
        return self.to_out(out.transpose(1, 2).flatten(2))


class CrossAttention(_Attention):
    """context: (b, m, dim), what is looked at; allowed_mask: bool (b, m), True = may be looked at."""

    def forward(self, *args, context=None, **kwargs):
        if context is None:
            raise ValueError("cross-attention needs a context")
        return super().forward(*args, context=context, **kwargs)
