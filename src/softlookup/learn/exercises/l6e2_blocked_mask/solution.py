"""6.2 The other polarity.

In this course, and in `F.scaled_dot_product_attention`, True in a mask means: this key may be looked at.
In `nn.MultiheadAttention` it means the reverse: True = blocked. Nothing stops when the two are mixed up,
for the shapes are the same; so the place where a mask crosses over deserves a check of its own.
"""

import torch
from torch import nn


def to_blocked_mask(allowed_mask):
    """Return the mask for `attn_mask` of nn.MultiheadAttention: boolean, (T, T), True = blocked.

    allowed_mask: boolean, (T, T), True = may be looked at; it is not changed

    Raises: AssertionError when a query would not see its own key: then the mask was blocked already.
    """
    blocked_mask = ~allowed_mask
    assert not blocked_mask.diagonal().any(), "a token is hidden from itself: is True = blocked already?"
    return blocked_mask


def to_key_padding_mask(token_ids, pad_id=0):
    """Return the mask for `key_padding_mask` of nn.MultiheadAttention: boolean, (B, T_k), True = blocked.

    token_ids: (B, T_k), integers; those equal to pad_id are padding
    """
    return token_ids == pad_id


if __name__ == "__main__":
    torch.manual_seed(0)
    token_ids = torch.tensor([[12, 91, 33, 5], [44, 17, 0, 0]])
    layer = nn.MultiheadAttention(embed_dim=8, num_heads=2, batch_first=True)
    x = torch.randn(2, 4, 8)
    causal = torch.ones(4, 4, dtype=torch.bool).tril()
    _, weights = layer(
        x,
        x,
        x,
        attn_mask=to_blocked_mask(causal),
        key_padding_mask=to_key_padding_mask(token_ids),
        average_attn_weights=False,
    )
    torch.set_printoptions(precision=2)
    print(weights[:, 0].detach())  # head 0 of both samples: no future, no padding
