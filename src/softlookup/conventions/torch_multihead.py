"""nn.MultiheadAttention of PyTorch.

    attn_mask: bool [3, 3], 1 = hidden
    . 1 1
    . . 1
    . . .
    key_padding_mask: bool [2, 3], 1 = hidden
    . . .
    . . 1

In its words: True in a bool mask means that the position may not be attended to, or that the key is ignored;
a float mask is added to the scores. attn_mask is [T_q, T_k] for all, or [B*H, T_q, T_k]; key_padding_mask is
[B, T_k]; both should have the same dtype. is_causal is a hint that attn_mask is the causal mask, and a wrong
hint may be followed or not. Beyond its words: heads are the inner axis of [B*H], so head h of sample b is
entry b * H + h. No axis broadcasts. The hint without a mask raises, but hides nothing where query, key and
value are one tensor, in eval mode and without gradients; beside add_zero_attn it also hides the added key.
A query without any key gets NaN with need_weights=True, zeros with need_weights=False, and NaN again where
query, key and value are one tensor in eval mode and without gradients.

Lost when written: nothing. The hint is_causal is not written.

Lost when read: a float mask that is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softlookup.conventions.spelling import Arguments
from softlookup.conventions.torch_blocked import BlockedMasks

_MASKS = BlockedMasks("nn.MultiheadAttention", "attn_mask", "key_padding_mask", ("is_causal",))

NAME = "nn.MultiheadAttention"
ALSO = ("mha", "torch.nn.MultiheadAttention", "MultiheadAttention")
WORDS = "torch 2.13.0"
CALL = "module(q, k, v, {})"
TAKES = _MASKS.takes
FORMS = _MASKS.forms
read = _MASKS.read


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call a module whose projections are identities."""
    batch_size, num_heads, q_len, d_head = q.shape
    width = num_heads * d_head
    module = nn.MultiheadAttention(width, num_heads, bias=False, batch_first=True, device="meta")
    module = module.to_empty(device="cpu").eval()  # without random numbers
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.eye(width).repeat(3, 1))
        module.out_proj.weight.copy_(torch.eye(width))
        tokens = [x.transpose(1, 2).flatten(2) for x in (q, k, v)]  # [B, H, T, d] -> [B, T, H*d]
        output: Tensor = module(*tokens, need_weights=False, **arguments)[0]
    return output.view(batch_size, q_len, num_heads, d_head).transpose(1, 2)
