"""Attention without padding: each sample is cut to its real keys before anything is computed."""

import math

import torch


def attend(q, k, v, key_padding_mask=None):
    """Attend to the real keys of each sample.

    q: (B, H, T_q, d)   k: (B, H, T_k, d)   v: (B, H, T_k, d_v)
    key_padding_mask: bool (B, T_k); True = padding, a key that nobody may look at. What it holds does not matter.

    A sample without any real key returns zeros. Returns (B, H, T_q, d_v).
    """
    samples = []
    for b in range(q.shape[0]):
        keys, values = k[b], v[b]
        if key_padding_mask is not None:
            real = ~key_padding_mask[b]
            keys, values = keys[:, real], values[:, real]
        scores = q[b] @ keys.transpose(-2, -1)
        scores = scores / math.sqrt(q.shape[-1])
        weights = torch.softmax(scores, dim=-1)
        samples.append(weights @ values)
    return torch.stack(samples)
