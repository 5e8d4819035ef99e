"""3.6 Find it: half of all masks are true.

This code was moved from one PyTorch call to another. No error, no NaN, all rows sum to one, and with no mask at
all it is right to the last digit. Say which rule it breaks (`softlookup rules` lists them), then mend it.
"""

import torch
import torch.nn.functional as F

BUG = ""  # the name of the rule, e.g. "scale-missing"


def attend(q, k, v, allowed_mask=None):
    """Return the output of scaled dot-product attention.

    q: (B, H, T_q, d_head)   k: (B, H, T_k, d_head)   v: (B, H, T_k, d_v)
    allowed_mask: boolean, broadcastable to (B, H, T_q, T_k), True = may be looked at
    """
    attn_mask = None
    if allowed_mask is not None:
        # as it was for nn.MultiheadAttention
        attn_mask = torch.logical_not(allowed_mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=attn_mask)


if __name__ == "__main__":
    q = k = torch.zeros(1, 1, 4, 4)  # all keys fit equally well
    v = torch.eye(4)[None, None]  # so row i of the output shows whom query i looks at
    real = torch.tensor([True, True, True, False])  # the last key is padding
    print(attend(q, k, v, real[None, None, None]))
