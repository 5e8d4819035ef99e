"""Report b074: https://github.com/pytorch/pytorch/issues/103082

What is wrong: is_causal counts from the first key: with one new query and a cache only key 0 is seen.
"""

import torch.nn.functional as F


def decode(q, k_cache, v_cache):
    """Causal attention of the newest tokens over the whole cache.

    q: (B, H, T_new, d)   k_cache, v_cache: (B, H, T_all, d)
    The last query is aligned with the last key (decode with a cache).
    """
    return F.scaled_dot_product_attention(q, k_cache, v_cache, is_causal=True)  # bug
