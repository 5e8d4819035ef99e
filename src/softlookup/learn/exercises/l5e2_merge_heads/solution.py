"""5.2 Merge the heads.

After the lookup every head holds what it found. The heads of one token are put side by side again, so that
its width is d_model as before: the way back of 5.1.
"""

import torch


def merge_heads(context, d_model):
    """Return the heads of each token side by side: (B, H, T, d_head) -> (B, T, d_model).

    context: (B, H, T, d_head)   d_model: the width that H heads of d_head must come to

    Raises: ValueError when context has not four axes, or when H * d_head is not d_model.
    """
    if context.dim() != 4 or context.size(1) * context.size(3) != d_model:
        raise ValueError(f"H * d_head is to be {d_model}, got (B, H, T, d_head) = {tuple(context.shape)}")
    B, H, T, d_head = context.shape
    tokens_first = context.transpose(1, 2).contiguous()  # (B, T, H, d_head)
    return tokens_first.view(B, T, H * d_head)  # (B, T, d_model)


if __name__ == "__main__":
    # Two heads, three tokens: 100 is head 1, the tens are the token, the last digit is the feature.
    context = torch.tensor(
        [[[[0, 1], [10, 11], [20, 21]], [[100, 101], [110, 111], [120, 121]]]]
    )
    for token, its in enumerate(merge_heads(context, 4)[0]):
        print(f"token {token}", its.tolist())
