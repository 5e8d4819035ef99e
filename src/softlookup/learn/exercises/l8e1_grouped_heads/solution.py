"""8.1 Grouped heads.

When a model writes text, the keys and values of all earlier tokens wait in memory. Grouped heads keep
fewer of them: several query heads share one key head and one value head. With 8 query heads and 2
key/value heads, query heads 0 to 3 use key/value head 0, and query heads 4 to 7 use head 1.
"""

import math

import torch


def spread_heads(heads, num_heads):
    """Return the shared heads as many times as there are query heads: (B, H, T_k, d).

    heads: (B, H_kv, T_k, d), the keys or the values
    num_heads: H, the number of query heads; the first H / H_kv of them share head 0, the next ones head 1 ...

    Raises: ValueError when H is not a multiple of H_kv.
    """
    shared = heads.size(1)
    if num_heads % shared:
        raise ValueError(f"{num_heads} query heads cannot share {shared} key/value heads evenly")
    return heads.repeat_interleave(num_heads // shared, dim=1)


def grouped_attention(q, k, v, allowed_mask=None):
    """Return the output (B, H, T_q, d_v) of attention whose query heads share keys and values.

    q: (B, H, T_q, d_head)   k: (B, H_kv, T_k, d_head)   v: (B, H_kv, T_k, d_v), where H is a multiple of H_kv
    allowed_mask: boolean, broadcastable to (B, H, T_q, T_k), True = may be looked at
    """
    k = spread_heads(k, q.size(1))  # (B, H, T_k, d_head)
    v = spread_heads(v, q.size(1))  # (B, H, T_k, d_v)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (B, H, T_q, T_k)
    if allowed_mask is not None:
        scores = scores.masked_fill(~allowed_mask, -math.inf)
    return torch.softmax(scores, dim=-1) @ v  # (B, H, T_q, d_v)


if __name__ == "__main__":
    number = torch.arange(2.0)[None, :, None, None]  # (1, 2, 1, 1): each key/value head holds its own number
    print("query heads 0 to 7 use head", spread_heads(number, 8).int().flatten().tolist())
    for shared in (8, 2, 1):
        size = 2 * shared * 8192 * 128 * 2 / 2**20
        print(f"{shared} key/value heads: {size:4.0f} MiB for 8192 tokens in one layer (bfloat16)")
