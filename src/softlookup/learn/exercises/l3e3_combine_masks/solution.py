"""3.3 Two masks, and a row that may look nowhere.

In a decoder a key has to pass two rules: it is a real token, and it does not come later. Allowed masks combine
with `&`. Then a row can be left with nothing at all, and the softmax of nothing is NaN, which spreads through the
whole network. So it is better to stop here, and to say where.
"""

import torch


def make_decoder_mask(token_ids, pad_id=0):
    """Return which keys each query may look at: real tokens that are not later than the query.

    token_ids: (B, T) integers

    Returns: boolean (B, 1, T, T), True = may be looked at

    Raises: ValueError when a query is left without any key; its message has the number of the sample and of the
    query, counted from 0.
    """
    t = token_ids.size(1)
    causal = torch.ones(t, t, dtype=torch.bool).tril()[None, None]  # (1, 1, T, T)
    real = (token_ids != pad_id)[:, None, None, :]  # (B, 1, 1, T)
    allowed = causal & real  # (B, 1, T, T)
    empty = (~allowed.any(dim=-1)).nonzero()  # (number of empty rows, 3): sample, 0, query
    if len(empty):
        sample, _, query = empty[0].tolist()
        raise ValueError(f"sample {sample}, query {query}: no key is allowed, every one is padding or later")
    return allowed


if __name__ == "__main__":
    token_ids = torch.tensor([[12, 91, 33, 0, 0], [44, 17, 29, 81, 5]])
    print(make_decoder_mask(token_ids).int())
    print(make_decoder_mask(token_ids).shape)
    make_decoder_mask(torch.tensor([[7, 8, 9], [0, 0, 0]]))  # stops: the second sample is nothing but padding
