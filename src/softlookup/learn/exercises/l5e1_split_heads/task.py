"""5.1 Split the heads.

Several small lookups side by side find more than one large lookup. Each head gets its own slice of the width
of every token; afterwards each head sees the whole sequence, but only its slice.
"""

import torch


def split_heads(x, num_heads):
    """Return every head's slice of every token: (B, T, d_model) -> (B, H, T, d_head).

    x: (B, T, d_model)   num_heads: H, and d_head = d_model / H

    Raises: ValueError when d_model is not a multiple of num_heads; the message says both numbers.
    """
    raise NotImplementedError("TODO: a check, and two steps")


if __name__ == "__main__":
    # Three tokens 0, 10, 20 with four features each: every number says whose it is.
    x = torch.tensor([[[0, 1, 2, 3], [10, 11, 12, 13], [20, 21, 22, 23]]])
    for head, its in enumerate(split_heads(x, 2)[0]):
        print(f"head {head} sees", its.tolist())
