"""2.2 Why the scale.

A dot product of d_k numbers is a sum of d_k products, so it grows with d_k: with unit variance in q and k its
variance is d_k. Large scores drive the softmax to 0 and 1, and there its gradient is almost nothing. A factor
brings the variance back to 1. Write the scaled scores, then measure that this is so.
"""

import math

import torch


def scaled_scores(q, k):
    """Return the scores, divided so that their variance does not depend on d_k.

    q: (..., T_q, d_k)   k: (..., T_k, d_k)

    Returns: (..., T_q, T_k)
    """
    return q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))


def variance_of_dots(d_k, scaled, samples=4096):
    """Measure the variance of the dot product of random queries and keys of unit variance.

    scaled: measure it after the scale, as `scaled_scores` gives it, or before
    samples: how many pairs of one query and one key are drawn

    Returns: a number; for d_k = 64 about 64 before the scale, and about 1 after it
    """
    q = torch.randn(samples, 1, d_k)  # every sample has one query and one key
    k = torch.randn(samples, 1, d_k)
    scores = scaled_scores(q, k) if scaled else q @ k.transpose(-2, -1)  # (samples, 1, 1)
    return scores.var().item()


if __name__ == "__main__":
    print(" d_k   before the scale   after it")
    for d_k in (4, 16, 64, 256):
        before, after = variance_of_dots(d_k, scaled=False), variance_of_dots(d_k, scaled=True)
        print(f"{d_k:4d}   {before:16.2f}   {after:8.3f}")
