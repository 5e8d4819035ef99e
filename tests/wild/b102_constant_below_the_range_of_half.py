"""Report b102: https://github.com/huggingface/lerobot/pull/710

What is wrong: the constant for hidden keys, -2.4e38, has no float16, so the call raises there.
"""

import torch


def eager_forward(query_states, key_states, value_states, attention_mask):
    """query_states, key_states, value_states: (batch, seq, heads, head_dim), any float dtype.

    attention_mask: bool (batch, q_len, k_len), True = may attend
    """
    q, k, v = (x.transpose(1, 2) for x in (query_states, key_states, value_states))
    att_weights = torch.matmul(q, k.transpose(2, 3)) * q.shape[-1] ** -0.5
    big_neg = torch.full_like(att_weights, -2.3819763e38)  # bug
    masked = torch.where(attention_mask[:, None], att_weights, big_neg)
    probs = masked.softmax(dim=-1)
    return torch.matmul(probs, v).transpose(1, 2)
