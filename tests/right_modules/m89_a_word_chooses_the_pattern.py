"""A word in the constructor chooses who sees whom; its name says nothing of what may be given."""

from torch import nn


class PatternAttention(nn.Module):
    def __init__(self, dim, pattern, dim_head):
        super().__init__()
        if pattern not in {"everything", "backwards"}:
            raise ValueError(f"no such pattern: {pattern}")
        self.backwards = pattern == "backwards"
        self.heads = dim // dim_head
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, dim = x.shape
        q, k, v = self.to_qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.backwards)
        return self.to_out(out.transpose(1, 2).reshape(b, n, dim))
