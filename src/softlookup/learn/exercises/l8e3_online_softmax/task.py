"""8.3 A softmax that never sees a whole row.

Fast kernels do not write down a row of T scores. They walk through the keys block by block and keep
three things for each query: the largest score so far, the sum of the exponentials so far, and the mix of
the values so far. When a later block brings a larger score, what was kept is rescaled. The result is the
same, not an approximation.
"""

import math

import torch


def attend_in_blocks(q, k, v, block_size):
    """Return the output (B, H, T_q, d_v) of scaled dot-product attention, from `block_size` keys at a time.

    q: (B, H, T_q, d_head)   k: (B, H, T_k, d_head)   v: (B, H, T_k, d_v)
    block_size: how many keys are looked at in one step; the last block may be smaller

    No tensor that is made here has T_k numbers for a query, where T_k is larger than the block.
    """
    raise NotImplementedError("TODO: largest, total and mix, and a loop over the blocks")


if __name__ == "__main__":
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 1000, 8).unbind(0)
    whole = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), dim=-1) @ v
    for block_size in (1000, 64, 1):
        apart = (attend_in_blocks(q, k, v, block_size) - whole).abs().max().item()
        print(f"blocks of {block_size:4} keys: at most {apart:.1e} from the plain formula")
