"""Each projection is a part of its own that cuts into heads; tokens come first, inputs only by name."""

from torch import nn


class PrepareHeads(nn.Module):
    def __init__(self, d_model, heads):
        super().__init__()
        self.linear = nn.Linear(d_model, d_model)
        self.heads = heads

    def forward(self, x):
        return self.linear(x).view(*x.shape[:-1], self.heads, -1)


class MultiHeadAttention(nn.Module):
    """query, key, value: (T, B, d_model)."""

    def __init__(self, heads, d_model):
        super().__init__()
        self.query = PrepareHeads(d_model, heads)
        self.key = PrepareHeads(d_model, heads)
        self.value = PrepareHeads(d_model, heads)
        self.output = nn.Linear(d_model, d_model)

    def forward(self, *, query, key, value):
        q, k, v = self.query(query), self.key(key), self.value(value)  # (T, B, heads, d)
        scores = q.permute(1, 2, 0, 3) @ k.permute(1, 2, 3, 0) / q.shape[-1] ** 0.5
        out = scores.softmax(dim=-1) @ v.permute(1, 2, 0, 3)
        return self.output(out.permute(2, 0, 1, 3).flatten(2))
