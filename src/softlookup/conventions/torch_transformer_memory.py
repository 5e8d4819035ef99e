"""nn.TransformerDecoder of PyTorch, its attention to the memory; also nn.Transformer and the layer.

    memory_mask: bool [3, 3], 1 = hidden
    . 1 1
    . . 1
    . . .
    memory_key_padding_mask: bool [2, 3], 1 = hidden
    . . .
    . . 1

In its words: True in a bool mask means that the position may not be attended to, or that the key is ignored;
a float mask is added to the scores. memory_mask is [T_q, T_k] for all; memory_key_padding_mask is [B, T_k].
memory_is_causal is a hint that memory_mask is the causal mask, and a wrong hint may be followed or not.
Beyond its words: memory_mask may be [B*H, T_q, T_k] as well, the hint without a mask raises, and a query
without any key gets zeros.

Lost when written: nothing. The hint memory_is_causal is not written.

Lost when read: a float mask that is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softlookup.conventions.spelling import Arguments
from softlookup.conventions.torch_bare_layers import attention_of, bare_decoder_layer, tokens_of
from softlookup.conventions.torch_blocked import BlockedMasks

_MASKS = BlockedMasks(
    "nn.TransformerDecoder memory", "memory_mask", "memory_key_padding_mask", ("memory_is_causal",)
)

NAME = "nn.TransformerDecoder memory"
ALSO = ("torch.nn.TransformerDecoder memory", "nn.TransformerDecoderLayer memory", "nn.Transformer memory")
WORDS = "torch 2.13.0"
CALL = "decoder(x, memory, {})"
TAKES = _MASKS.takes
FORMS = _MASKS.forms
read = _MASKS.read


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call a decoder of one layer that gives back its attention to memory, see ``torch_bare_layers``."""
    num_heads = q.shape[1]
    target = tokens_of(q, torch.zeros_like(q), torch.zeros_like(q))
    memory = tokens_of(torch.zeros_like(k), k, v)
    decoder = nn.TransformerDecoder(bare_decoder_layer(num_heads, q.shape[3], "multihead_attn"), 1).eval()
    with torch.no_grad():
        return attention_of(decoder(target, memory, **arguments), target, num_heads)
