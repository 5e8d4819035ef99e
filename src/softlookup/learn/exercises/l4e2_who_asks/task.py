"""4.2 Find it: a decoder that never reads.

The loss goes down, the shapes are right, and the translation says nothing of the sentence.
Say which rule this layer breaks (`softlookup rules` lists them), then mend it.
"""

import torch
import torch.nn.functional as F
from torch import nn

BUG = ""  # the name of the rule, e.g. "mask-ignored"


class CrossAttention(nn.Module):
    """The target looks at the memory.

    x: (B, T_q, dim)   memory: (B, T_k, dim)
    memory_mask: boolean (B, T_k), True = a real token of the memory

    Returns: (B, T_q, dim)
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_kv = nn.Linear(dim, 2 * dim, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x, memory, memory_mask=None):
        q = self.to_q(x)
        k = self.to_kv(memory).chunk(2, dim=-1)[0]
        v = self.to_kv(x).chunk(2, dim=-1)[1]
        q, k, v = (it.unflatten(-1, (self.heads, -1)).transpose(1, 2) for it in (q, k, v))
        if memory_mask is not None:
            memory_mask = memory_mask[:, None, None, :]
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=memory_mask)
        return self.to_out(out.transpose(1, 2).flatten(2))


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = CrossAttention(dim=8, heads=2)
    x, sentence, another = torch.randn(3, 1, 5, 8)
    with torch.no_grad():
        memories = {"one sentence": sentence, "another one": another, "silence": 0 * sentence}
        for name, memory in memories.items():
            first = layer(x, memory)[0, 0]
            print(f"{name:12} the first token reads", [round(number, 2) for number in first.tolist()])
