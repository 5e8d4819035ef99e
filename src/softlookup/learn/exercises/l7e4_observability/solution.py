"""7.4 Four numbers to watch.

A model in training cannot be looked at row by row. Four numbers for each layer say early that something
goes wrong: scores that grow, a mask that hides too much, rows that lose weight, keys that are seen
although they are hidden.
"""

import math

import torch


def largest_score(scores, allowed_mask):
    """Return the largest |score| among the allowed ones, as a float; 0.0 where none is allowed.

    scores: (B, H, T_q, T_k), scaled, before the mask and the softmax
    allowed_mask: boolean, broadcastable to the scores, True = may be looked at
    """
    seen = scores.abs().masked_fill(~allowed_mask, 0.0)
    return seen.max().item()


def hidden_share(scores, allowed_mask):
    """Return the share of all B * H * T_q * T_k scores that is hidden, as a float from 0 to 1."""
    return (~allowed_mask).expand_as(scores).float().mean().item()


def row_sum_error(weights):
    """Return by how much the row that misses one the most does so, as a float.

    weights: (B, H, T_q, T_k), after the softmax and before dropout
    """
    return (weights.sum(dim=-1) - 1).abs().max().item()


def largest_forbidden(weights, allowed_mask):
    """Return the largest weight that a hidden key got, as a float; 0.0 where nothing is hidden."""
    return weights.masked_fill(allowed_mask, 0.0).max().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    allowed_mask = torch.ones(6, 6, dtype=torch.bool).tril()
    print("scores times  largest  hidden  row error  forbidden")
    for factor in (1, 3, 10):
        scores = factor * torch.randn(2, 3, 6, 6)
        weights = scores.masked_fill(~allowed_mask, -9).softmax(-1)  # a finite fill: which number tells?
        numbers = largest_score(scores, allowed_mask), hidden_share(scores, allowed_mask)
        numbers += row_sum_error(weights), largest_forbidden(weights, allowed_mask)
        print("%12d  %7.2f  %6.2f  %9.1e  %9.1e" % (factor, *numbers))
