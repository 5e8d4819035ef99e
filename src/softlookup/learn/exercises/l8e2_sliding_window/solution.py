"""8.2 A sliding window.

In a long text, a query may not need the whole past: with a window it sees its own key and a fixed number
of keys before. What it costs then grows with T times the window, and no longer with the square of T.
"""

import torch


def make_window_allowed_mask(seq_len, window):
    """Return a boolean mask of shape (1, 1, T, T), True = this query may look at this key.

    window: how many keys a query sees at most, its own key included: it and the window - 1 before it. Keys
        after the query are hidden.

    Raises: ValueError when window is below 1: then a query could look nowhere.
    """
    if window < 1:
        raise ValueError(f"a window of {window} keys leaves a query nothing to look at")
    i = torch.arange(seq_len)[:, None]  # (T, 1): queries
    j = torch.arange(seq_len)[None, :]  # (1, T): keys
    return ((j <= i) & (i - j < window))[None, None]  # (1, 1, T, T)


def visible_count(seq_len, window):
    """Return how many of the T * T pairs of query and key the mask allows: an integer.

    For long texts: count without building the mask. seq_len is at least window, and window at least 1.
    """
    return window * (window + 1) // 2 + (seq_len - window) * window


if __name__ == "__main__":
    print(make_window_allowed_mask(6, window=3)[0, 0].int())
    for seq_len in (4096, 32768, 262144):
        share = visible_count(seq_len, 4096) / (seq_len * (seq_len + 1) // 2)
        print(f"{seq_len:6} tokens: a window of 4096 leaves {share:7.2%} of the causal pairs")
