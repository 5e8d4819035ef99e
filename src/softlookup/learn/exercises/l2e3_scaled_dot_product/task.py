"""2.3 Scaled dot-product attention.

All of it at once: scores, scale, softmax, mix. One function serves a single sample (T, d), a batch (B, T, d) and
a batch with heads (B, H, T, d), because every step works on the last two axes.
"""

import math

import torch


def scaled_dot_product_attention(q, k, v):
    """Return the output and the weights.

    q: (..., T_q, d_k)   k: (..., T_k, d_k)   v: (..., T_k, d_v), with any axes in front

    Returns: output (..., T_q, d_v) and weights (..., T_q, T_k)

    Raises: ValueError when q and k differ in d_k, or k and v in T_k.
    """
    raise NotImplementedError("TODO: two checks, then scores, scale, softmax, mix")


if __name__ == "__main__":
    q = torch.tensor([[[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 0, 0]]])  # (1, 3, 4)
    k = torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]]])  # (1, 3, 4)
    v = torch.tensor([[[10.0, 0], [0, 10], [5, 5]]])  # (1, 3, 2)
    torch.set_printoptions(precision=4)
    print(*scaled_dot_product_attention(q, k, v), sep="\n")
    # The first query fits keys 0 and 2 equally well: weights 0.3837, 0.2327, 0.3837, output 5.7548, 4.2452.
