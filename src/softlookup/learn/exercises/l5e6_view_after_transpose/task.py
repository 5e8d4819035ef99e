"""5.6 Find it: heads that lost their tokens.

A colleague got an error about strides from `view` and found a way to silence it. It trains, only not well.
Say which rule this layer breaks (`softlookup rules` lists them), then mend it.
"""

import torch
import torch.nn.functional as F
from torch import nn

BUG = ""  # the name of the rule, e.g. "heads-summed"


class CausalSelfAttention(nn.Module):
    """Causal self-attention: (B, T, n_embd) -> (B, T, n_embd)."""

    def __init__(self, n_embd, n_head):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)  # q, k and v in one product
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)  # (B, n_head, T, d_head)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (B, n_head, T, d_head)
        y = y.contiguous().view(B, T, C)
        return self.c_proj(y)


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = CausalSelfAttention(n_embd=8, n_head=2)
    x = torch.randn(1, 4, 8)
    changed = x.clone()
    changed[0, 3] += 1  # only the last token is another one
    with torch.no_grad():
        moved = (layer(changed) - layer(x)).abs().amax(dim=-1)[0]
    print("the last token was changed; each token's output moved by", [round(m, 3) for m in moved.tolist()])
