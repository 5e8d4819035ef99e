"""Report b015: https://github.com/georg-wolflein/good-features/pull/1

What is wrong: the scores of padding are multiplied by 0, and exp(0) is 1.
"""

import torch


def bag_attention(query, key, value, *, instance_mask):
    """Attention within a bag of instances, bags padded to one length.

    query, key, value: (n_bags, n_instances, d)
    instance_mask: (n_bags, n_instances) of 0 and 1, 1 = an instance, 0 = padding
    """
    logits = torch.einsum("bid,bjd->bij", query, key) / query.shape[-1] ** 0.5
    logits = logits * instance_mask.to(logits.dtype)[:, None, :]  # bug
    return torch.einsum("bij,bjd->bid", logits.softmax(-1), value)
