"""Report b103: https://github.com/huggingface/transformers/pull/27114

What is wrong: a causal and a padding plane of the lowest number are summed: where both hide, the sum is -inf.
"""

import torch


def decoder_attention(q, k, v, attention_mask):
    """Causal attention over left-padded prompts.

    q, k, v: (B, H, T, d)
    attention_mask: (B, T_k), 1 for real tokens, 0 for padding
    The fill is the lowest finite number, never -inf: a row with no visible key stays uniform over all keys.
    """
    lowest = torch.finfo(q.dtype).min
    causal = torch.full((q.shape[2], k.shape[2]), lowest, dtype=q.dtype).triu(1)
    padding = torch.zeros_like(attention_mask, dtype=q.dtype).masked_fill(attention_mask == 0, lowest)
    bias = causal + padding[:, None, None, :]  # bug
    scores = torch.matmul(q, k.transpose(-1, -2)) / q.shape[-1] ** 0.5
    hidden = bias < 0
    scores = torch.where(hidden, bias, scores)
    return torch.matmul(torch.softmax(scores, dim=-1), v)
