"""Report b137: https://github.com/HabanaAI/vllm-fork/pull/1218

What is wrong: the transposes before and after a heads-first kernel were removed.
"""

import torch.nn.functional as F


def prompt_attention(query, key, value):
    """Self-attention over a prompt.

    query, key, value: [batch, seq_len, num_heads, head_size]; returns the same layout
    """
    return F.scaled_dot_product_attention(query, key, value)  # bug
