"""nn.TransformerDecoder of PyTorch, its attention of the target to itself; also nn.Transformer and the layer.

    tgt_mask: bool [3, 3], 1 = hidden
    . 1 1
    . . 1
    . . .
    tgt_key_padding_mask: bool [2, 3], 1 = hidden
    . . .
    . . 1

In its words: True in a bool mask means that the position may not be attended to, or that the key is ignored;
a float mask is added to the scores. tgt_mask is [T, T] for all, or [B*H, T, T]; tgt_key_padding_mask is
[B, T]. tgt_is_causal is a hint that tgt_mask is the causal mask; with None the decoder looks whether it is.
Beyond its words: without a mask the hint raises, but hides nothing in eval mode, without gradients, with
batch_first=True and an even number of heads; there a query without any key gets NaN, and zeros elsewhere.

Lost when written: queries and keys of different lengths, since these are the same tokens.

Lost when read: a float mask that is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softlookup.conventions.spelling import Arguments
from softlookup.conventions.torch_bare_layers import attention_of, bare_decoder_layer, tokens_of
from softlookup.conventions.torch_blocked import BlockedMasks

_MASKS = BlockedMasks(
    "nn.TransformerDecoder", "tgt_mask", "tgt_key_padding_mask", ("tgt_is_causal",), to_itself=True
)

NAME = "nn.TransformerDecoder"
ALSO = (
    "torch.nn.TransformerDecoder",
    "TransformerDecoder",
    "nn.TransformerDecoderLayer",
    "TransformerDecoderLayer",
    "nn.Transformer tgt",
)
WORDS = "torch 2.13.0"
CALL = "decoder(x, memory, {})"
TAKES = _MASKS.takes
FORMS = _MASKS.forms
read = _MASKS.read


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call a decoder of one layer that gives back its attention to itself, see ``torch_bare_layers``."""
    num_heads, tokens = q.shape[1], tokens_of(q, k, v)
    decoder = nn.TransformerDecoder(bare_decoder_layer(num_heads, q.shape[3], "self_attn"), 1).eval()
    with torch.no_grad():
        return attention_of(decoder(tokens, torch.zeros_like(tokens), **arguments), tokens, num_heads)
