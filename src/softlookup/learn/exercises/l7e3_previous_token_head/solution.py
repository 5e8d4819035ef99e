"""7.3 A head with a known job.

Trained heads are hard to check: who knows what they should do? So build one whose job is known. A
previous-token head reads, at every position, the token before. You choose its queries and keys by hand;
then any attention code can be tested with it, and a mask or an axis that is wrong shows at once.
"""

import math

import torch


def previous_token_fixture(seq_len):
    """Return q and k, (T, d) each, with a width d of your choice, of a head that reads the token before.

    In causal attention with the usual scale, softmax(q @ k.T / sqrt(d)), query i gives at least 0.999 to key
    i - 1. The first query has no token before it: the causal rule leaves only itself.

    The head does its job by itself, not by the help of the mask: without the causal rule, every query but the
    first still gives 0.999 to the key before.
    """
    k = torch.eye(seq_len)  # (T, T): key j is direction j
    length = 20 * math.sqrt(seq_len)  # after the scale, the key that fits leads by 20
    q = length * torch.roll(k, 1, dims=0)  # (T, T): query i asks for direction i - 1
    return q, k


if __name__ == "__main__":
    q, k = previous_token_fixture(5)
    tokens = ["the", "cat", "sat", "down", "."]
    scores = q @ k.T / math.sqrt(q.size(-1))
    weights = scores.masked_fill(torch.ones(5, 5).triu(1).bool(), -math.inf).softmax(-1)
    for token, row in zip(tokens, weights):
        print(f"{token:5} reads {tokens[int(row.argmax())]:5} with {row.max():.4f}")
