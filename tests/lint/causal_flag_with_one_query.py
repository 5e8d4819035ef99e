"""Lines that end in `# wrong` must be found by the lint this file is named after, and no other line."""

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, causal=True):
        super().__init__()
        self.is_causal = causal

    def joined(self, q, k, v, past_k=None, past_v=None):
        if past_k is not None:
            k = torch.cat([past_k, k], dim=2)
            v = torch.cat([past_v, v], dim=2)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)  # wrong

    def attribute(self, q, k, v, cache=None):
        if cache is not None:
            k = torch.cat([cache[0], k], dim=-2)
            v = torch.cat([cache[1], v], dim=-2)
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)  # wrong

    def updated(self, q, k, v, past_key_values):
        k, v = past_key_values.update(k, v, self.layer_idx)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)  # wrong

    def whole_cache(self, q, k_cache, v_cache):
        return F.scaled_dot_product_attention(q, k_cache, v_cache, is_causal=True)  # wrong

    def asks_for_the_length(self, q, k, v, past_k, past_v):
        k = torch.cat([past_k, k], dim=2)
        v = torch.cat([past_v, v], dim=2)
        return F.scaled_dot_product_attention(q, k, v, is_causal=q.size(2) > 1)

    def asks_for_the_cache(self, q, k, v, cache=None):
        if cache is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        k = torch.cat([cache[0], k], dim=-2)
        v = torch.cat([cache[1], v], dim=-2)
        return F.scaled_dot_product_attention(q, k, v)

    def flag_follows_the_cache(self, q, k, v, past_kv=None):
        if past_kv is not None:
            k = torch.cat((past_kv[0], k), dim=-2)
            v = torch.cat((past_kv[1], v), dim=-2)
        if past_kv is not None:
            is_causal = False
        else:
            is_causal = True
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)

    def asks_late(self, q, k, v, past=None):
        if past is not None:
            k = torch.cat([past[0], k], dim=-2)
        if past is None:
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return F.scaled_dot_product_attention(q, k, v)

    def no_cache(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def queries_joined_too(self, q, k, v, past):
        q = torch.cat([past[0], q], dim=2)
        k = torch.cat([past[1], k], dim=2)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
