"""6.3 Weights that travel.

Your layer of lesson 5 and `nn.MultiheadAttention` are the same function. That is only worth something
when trained weights can move from one to the other: then the same input gives the same output. PyTorch
keeps the weights of q, k and v in one matrix, `in_proj_weight`.
"""

import torch
from torch import nn


def packed(q_weight, k_weight, v_weight):
    """Return `in_proj_weight` (3 * d_model, d_model): the rows of q, then those of k, then those of v.

    q_weight, k_weight, v_weight: (d_model, d_model), as `nn.Linear` keeps them: output first
    """
    return torch.cat([q_weight, k_weight, v_weight], dim=0)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    """Run `nn.MultiheadAttention` with these weights, as self-attention, without biases and without a mask.

    x: (B, T, d_model)
    q_weight, k_weight, v_weight, out_weight: (d_model, d_model), of four `nn.Linear` without bias

    Returns: output (B, T, d_model) and the weights of every head (B, H, T, T).
    """
    layer = nn.MultiheadAttention(x.size(-1), num_heads, bias=False, batch_first=True)
    in_proj = packed(q_weight, k_weight, v_weight)
    layer.load_state_dict({"in_proj_weight": in_proj, "out_proj.weight": out_weight})
    return layer(x, x, x, average_attn_weights=False)


if __name__ == "__main__":
    from softlookup import MultiHeadAttention

    torch.manual_seed(0)
    x = torch.randn(2, 5, 32)
    ours = MultiHeadAttention(d_model=32, num_heads=4)
    four = [it.weight for it in (ours.q_proj, ours.k_proj, ours.v_proj, ours.out_proj)]
    for name, a, b in zip(("output", "weights"), ours(x), torch_attention(x, *four, num_heads=4)):
        print(name, tuple(b.shape), "at most", f"{(a - b).abs().max().item():.1e}", "apart")
