"""1.3 Three jobs, three projections.

In self-attention every token asks, is found, and has something to say. These are three jobs, so every token
gets three vectors: a query (what do I look for?), a key (how am I found?) and a value (what do I carry?). Three
matrices make them from the token. The matrices are all that is learned here: the softmax has no parameters.
"""

import torch


def self_lookup(x, w_q, w_k, w_v):
    """Let every token look at all tokens, itself included.

    x: (T, d_model)   w_q, w_k: (d_model, d_k)   w_v: (d_model, d_v)

    Returns: output (T, d_v) and weights (T, T), row = the token that asks. The scores are plain dot products,
    without a scale.
    """
    raise NotImplementedError("TODO: q, k and v, then scores, weights and output for all tokens at once")


if __name__ == "__main__":
    x = torch.eye(3)  # three tokens that have nothing in common
    w_q = 5 * torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])  # each asks for the next one
    w_k = torch.eye(3)
    w_v = torch.tensor([[10.0, 0.0], [0.0, 10.0], [5.0, 5.0]])
    output, weights = self_lookup(x, w_q, w_k, w_v)
    print(weights)
    print(output)
