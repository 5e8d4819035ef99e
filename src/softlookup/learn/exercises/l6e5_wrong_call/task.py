"""6.5 Find it: everybody gets the same share.

The lookup of this layer was once written by hand. Then its last lines were replaced by PyTorch's fast
function, which made training twice as fast. The model still learns, but its maps are strangely flat. Say
which rule it breaks (`softlookup rules` lists them), then mend it.
"""

import torch
import torch.nn.functional as F
from torch import nn

BUG = ""  # the name of the rule, e.g. "softmax-twice"


class SelfAttention(nn.Module):
    """Self-attention: (B, T, dim) -> (B, T, dim).

    padding_mask: boolean, (B, T), True = this token is padding; it is not looked at
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)  # k, then v
        self.to_out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, padding_mask=None):
        q = self.to_q(x)  # (B, T, dim)
        k, v = self.to_kv(x).chunk(2, dim=-1)  # (B, T, dim) each
        # (B, T, dim) -> (B, heads, T, d_head)
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        q = q * self.scale
        allowed = None if padding_mask is None else ~padding_mask[:, None, None]  # (B, 1, 1, T)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.to_out(out.transpose(1, 2).flatten(2))  # (B, T, dim)


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = SelfAttention(dim=64, heads=1)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.eye(64).repeat(len(weight) // 64, 1))  # only the lookup is left
        x = 2 * F.normalize(torch.randn(1, 8, 64), dim=-1) * 64**0.25  # (1, 8, 64)
        own = (layer(x) @ torch.linalg.pinv(x))[0].diagonal()
        due = (x @ x.transpose(-2, -1) / 8).softmax(-1)[0].diagonal()
    print("share that each token gives to itself:", [round(share, 2) for share in own.tolist()])
    print("what the formula says:                ", [round(share, 2) for share in due.tolist()])
