"""Attention over blocks of keys with a running maximum, so that no full score matrix exists."""

import math

import torch


def chunked_attention(q, k, v, allowed_mask=None, causal=False, window=None, scale=None):
    """Compute softmax attention one block of keys at a time.

    q: (B, H, T_q, d)   k: (B, H_kv, T_k, d)   v: (B, H_kv, T_k, d_v)
    allowed_mask: bool, broadcastable to (B, H, T_q, T_k); True = may attend.
    causal: hide keys after the query; when T_q != T_k the corner is bottom-right (the last query sees every key).
    window: causal sliding window: number of keys a query sees, itself included.
    scale: factor on the scores, 1 / sqrt(d) when None.

    Sums run in float32 or better. A query without any allowed key returns zeros. Returns (B, H, T_q, d_v).
    """
    block = 4
    wide = torch.promote_types(q.dtype, torch.float32)
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    k = torch.repeat_interleave(k, q.shape[1] // k.shape[1], dim=1)
    v = torch.repeat_interleave(v, q.shape[1] // v.shape[1], dim=1)
    B, H, T_q, _ = q.shape
    T_k, d_v = v.shape[-2:]
    if allowed_mask is not None:
        allowed_mask = allowed_mask.expand(B, H, T_q, T_k)
    i = torch.arange(T_q, device=q.device)[:, None] + (T_k - T_q)

    highest = torch.full((B, H, T_q, 1), -math.inf, dtype=wide, device=q.device)
    total = torch.zeros(B, H, T_q, 1, dtype=wide, device=q.device)
    output = torch.zeros(B, H, T_q, d_v, dtype=wide, device=q.device)
    for start in range(0, T_k, block):
        stop = min(start + block, T_k)
        keys, values = k[:, :, start:stop].to(wide), v[:, :, start:stop].to(wide)
        scores = q.to(wide) @ keys.transpose(-2, -1)
        scores = scores * factor
        j = torch.arange(start, stop, device=q.device)
        allowed = torch.ones(B, H, T_q, stop - start, dtype=torch.bool, device=q.device)
        if allowed_mask is not None:
            allowed = allowed & allowed_mask[..., start:stop]
        if causal or window is not None:
            allowed = allowed & (j <= i)
        if window is not None:
            allowed = allowed & (i - j < window)
        scores = scores.masked_fill(~allowed, -math.inf)

        new_highest = torch.maximum(highest, scores.detach().amax(dim=-1, keepdim=True))
        base = new_highest.masked_fill(new_highest == -math.inf, 0.0)  # nothing visible so far
        shrink = torch.exp(highest - base)
        shares = torch.exp(scores - base)
        total = total * shrink + shares.sum(dim=-1, keepdim=True)
        output = output * shrink + shares @ values
        highest = new_highest
    output = output / total.masked_fill(total == 0, 1.0)
    return output.to(q.dtype)
