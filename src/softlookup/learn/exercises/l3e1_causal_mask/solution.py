"""3.1 A causal mask.

A model that predicts the next token must not see it. The mask says for each query (row) which keys (columns)
it may look at: itself and everything before.
"""

import torch


def make_causal_allowed_mask(seq_len):
    """Return a boolean mask of shape (1, 1, T, T), True = this query may look at this key."""
    allowed = torch.tril(torch.ones(seq_len, seq_len, dtype=torch.bool))  # (T, T)
    return allowed[None, None]  # (1, 1, T, T)


if __name__ == "__main__":
    print(make_causal_allowed_mask(4).int())
