"""Report b075: https://github.com/pytorch/pytorch/issues/110144

What is wrong: the triangle of a later chunk starts at the first cached key.
"""

import torch


def prefill_chunk(query_states, key_states, value_states):
    """Causal attention of one chunk of a prompt, with the earlier chunks in the cache.

    query_states: [bsz, heads, q_len, head_dim]   key_states, value_states: [bsz, heads, kv_len, head_dim]
    The cache comes first: the last query is aligned with the last key.
    """
    q_len, kv_len = query_states.size(-2), key_states.size(-2)
    causal_mask = torch.tril(torch.ones(q_len, kv_len, dtype=torch.bool))  # bug
    attn_weights = query_states @ key_states.transpose(-1, -2) / query_states.size(-1) ** 0.5
    attn_weights = attn_weights.masked_fill(causal_mask.logical_not(), float("-inf"))
    return torch.softmax(attn_weights, dim=-1) @ value_states
