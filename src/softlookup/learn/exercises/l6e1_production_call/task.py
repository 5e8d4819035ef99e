"""6.1 The production call.

PyTorch has the whole lookup in one function, `F.scaled_dot_product_attention`, which picks a fast
kernel. It is the same mathematics, but it asks for masks, for the causal rule and for dropout in its own
way. Here you call it for a batch of sentences of different lengths.
"""

import torch
import torch.nn.functional as F


def attend(q, k, v, key_lengths=None, causal=False, dropout=0.0, training=False):
    """Return the output (B, H, T_q, d_v) of scaled dot-product attention, without the weights.

    q: (B, H, T_q, d_head)   k: (B, H, T_k, d_head)   v: (B, H, T_k, d_v)
    key_lengths: (B,), integers: sample b has key_lengths[b] real keys, at the front; the rest is padding
    causal: a query looks at no key after it (then T_q = T_k); together with key_lengths both rules count
    dropout: the probability with which a weight is dropped, only where `training` is True

    Call `F.scaled_dot_product_attention` once. Where causality is the only rule, hand over no mask but
    is_causal=True: that is how the kernel knows that it may skip half of the work.
    """
    raise NotImplementedError("TODO: which of attn_mask, is_causal and dropout_p?")


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 1, 4, 4).unbind(0)  # (B, H, T, d_head) = (2, 1, 4, 4)
    v = torch.eye(4).expand(2, 1, 4, 4)  # with these values the output shows the weights
    torch.set_printoptions(precision=2, sci_mode=False)
    print(attend(q, k, v, key_lengths=torch.tensor([4, 2]), causal=True))
