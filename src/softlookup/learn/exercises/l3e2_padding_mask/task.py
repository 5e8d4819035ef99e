"""3.2 A padding mask.

Sentences of different lengths share a batch: the short ones are filled up with a padding token. Nobody should
read these. The mask says for each sample which keys are real; it is the same for all heads and all queries.
"""

import torch


def make_padding_allowed_mask(token_ids, pad_id=0):
    """Return a boolean mask of shape (B, 1, 1, T_k), True = this key is a real token.

    token_ids: (B, T_k) integers; pad_id: the token that fills up
    """
    raise NotImplementedError("TODO: compare, and put two axes of size one in the middle")


if __name__ == "__main__":
    token_ids = torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]])
    print(make_padding_allowed_mask(token_ids).int())
    print(make_padding_allowed_mask(token_ids).shape)
