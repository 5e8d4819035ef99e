"""The whole layer.

Goal: Complete `MultiHeadAttention(d_model, num_heads, dropout=0.0)`: the check in the constructor,
split_heads, merge_heads, and forward(x, attention_mask=None), which returns the output (B, T, d_model) and
weights (B, H, T, T). The four projections keep their names.

Checks: Every rule of `softlookup rules` that speaks of such a layer, by calling it with chosen weights;
then masks with two, three and four axes, and the ValueErrors.

Ask: Write the shape of every line beside it: which line is the first whose shape surprises you?

Hint: The first steps are the same for q, k and v: project, then split. The last are the way back: merge,
then project out.

Hint: A mask (B, T, T) has to meet scores (B, H, T, T): against which axis would its B stand when nothing is
done?

Hint: The lookup is that of lesson 3: scores over the root of the width that q and k have *here*, hidden
scores -inf, softmax over the keys, and the weights mix the values of each head.
"""

import torch

from softlookup.learn.mistakes import shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Attends, Computes, Refuses
from softlookup.multihead import MultiHeadAttention
from softlookup.terms import Contract

KIND = "write"
AS_GIVEN = "not-written"

_SIZES = {"d_model": 6, "num_heads": 3}
_LAYER = MultiHeadAttention(d_model=6, num_heads=3).eval()
_MAKE = torch.Generator().manual_seed(5)
_WEIGHTS = {
    name: torch.randn(weight.shape, generator=_MAKE) / 2 for name, weight in _LAYER.named_parameters()
}
_LAYER.load_state_dict(_WEIGHTS)


@torch.no_grad()
def multi_head(x, attention_mask=None):
    return _LAYER(x, attention_mask)


@shown_at("masked_fill", "where", "setitem", "add")
def mask_batch_head_order(x, attention_mask=None):
    """A mask for each sample (B, T, T) meets the heads: head 0 gets the mask of sample 0, and so on.

    Ask: With which axis of (B, H, T, T) is the first axis of a mask (B, T, T) compared?
    """
    if attention_mask is not None and attention_mask.dim() == 3:
        attention_mask = attention_mask[None]
    return multi_head(x, attention_mask)


@shown_at("masked_fill", "where", "setitem", "add")
def mask_shared_across_batch(x, attention_mask=None):
    """The mask of the first sample is used for all of them.

    Ask: What is padding in one sentence need not be padding in another: where do the samples stay apart?
    """
    if attention_mask is not None and attention_mask.dim() > 2:
        return multi_head(x, attention_mask[:1].expand(len(x), *attention_mask.shape[1:]))
    return multi_head(x, attention_mask)


def mask_axes_not_checked(x, attention_mask=None):
    """A mask with another number of axes is let through.

    Ask: What would a mask (B, T) be compared with, when B happens to be T?
    """
    if attention_mask is not None and attention_mask.dim() < 2:
        attention_mask = attention_mask.expand(x.shape[1], -1)
    return multi_head(x, attention_mask)


def unclear_error(x, attention_mask=None):
    """A mask with another number of axes does raise, but only what torch says about shapes.

    Ask: Would somebody who hands in lengths in place of a mask understand what to change?
    """
    if attention_mask is not None and attention_mask.dim() not in {2, 3, 4}:
        raise RuntimeError
    return multi_head(x, attention_mask)


_X = torch.randn(3, 3, 6, generator=_MAKE)
_CAUSAL = torch.ones(3, 3, dtype=torch.bool).tril()
_EACH = torch.stack(
    [_CAUSAL, ~_CAUSAL.T | torch.eye(3, dtype=torch.bool), torch.ones(3, 3, dtype=torch.bool)]
)
_PADDING = torch.tensor([[True, True, False], [True, False, True], [True, True, True]])[:, None, None]


def _given(*masks):
    return Given(_X, *masks, weights=_WEIGHTS)


PARTS = (
    Refuses("MultiHeadAttention", {"d_model": 7, "num_heads": 2}),
    Attends(
        "MultiHeadAttention",
        Contract(mask="allowed", causal="none", returns="output, weights", weights="per head"),
        {"d_model": 24, "num_heads": 3},
    ),
    Computes(
        "MultiHeadAttention",
        multi_head,
        [
            _given(),
            _given(_CAUSAL),
            _given(_EACH),
            _given(_PADDING),
            _given(_CAUSAL & _PADDING),
            _given(torch.ones(3, dtype=torch.bool)),
            _given(torch.ones(1, 1, 1, 3, 3, dtype=torch.bool)),
        ],
        [mask_batch_head_order, mask_shared_across_batch, mask_axes_not_checked, unclear_error],
        _SIZES,
    ),
)
