"""nn.TransformerEncoder of PyTorch.

    mask: bool [3, 3], 1 = hidden
    . 1 1
    . . 1
    . . .
    src_key_padding_mask: bool [2, 3], 1 = hidden
    . . .
    . . 1

In its words: True in a bool mask means that the position may not be attended to, or that the key is ignored;
a float mask is added to the scores. mask is [T, T] for all, or [B*H, T, T]; src_key_padding_mask is [B, T].
is_causal is a hint that mask is the causal mask; with None the module looks whether it is. Beyond its words,
in eval mode, without gradients, with batch_first=True and an even number of heads: is_causal=True without a
mask hides nothing (elsewhere it raises); every number of a float mask but 0 hides; a query without any key
gets NaN; and with right padding as the only mask, and the norms last, the rows of padded queries are returned
as 0 (enable_nested_tensor=False turns this off).

Lost when written: queries and keys of different lengths, since these are the same tokens.

Lost when read: a float mask that is neither 0 nor hides is a bias, and no visibility.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from softlookup.conventions.spelling import Arguments
from softlookup.conventions.torch_bare_layers import attention_of, bare_encoder_layer, tokens_of
from softlookup.conventions.torch_blocked import BlockedMasks

_MASKS = BlockedMasks(
    "nn.TransformerEncoder",
    "mask",
    "src_key_padding_mask",
    ("is_causal",),
    to_itself=True,
    beside_a_bias="in inference, with batch_first=True, every number but 0 hides",
)

NAME = "nn.TransformerEncoder"
ALSO = ("torch.nn.TransformerEncoder", "TransformerEncoder")
WORDS = "torch 2.13.0"
CALL = "encoder(x, {})"
TAKES = _MASKS.takes
FORMS = _MASKS.forms
read = _MASKS.read


def run(q: Tensor, k: Tensor, v: Tensor, arguments: Arguments) -> Tensor:
    """Call an encoder of one layer that gives back its attention, see ``torch_bare_layers``."""
    num_heads, tokens = q.shape[1], tokens_of(q, k, v)
    layer = bare_encoder_layer(num_heads, q.shape[3])
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False).eval()
    with torch.no_grad():
        return attention_of(encoder(tokens, **arguments), tokens, num_heads)
