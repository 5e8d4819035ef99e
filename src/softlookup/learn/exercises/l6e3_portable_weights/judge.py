"""Weights that travel.

Goal: Write `packed(q_weight, k_weight, v_weight)`, which makes `in_proj_weight` out of three projections,
and `torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads)`, which runs
`nn.MultiheadAttention` with them and returns the output and the weights of every head.

Checks: The packed matrix; then that the layer gives the output and the weights that four Linear layers and
the lookup of lesson 5 give, for several sizes.

Ask: Which of the three thirds of `in_proj_weight` does a token meet to become a query?

Hint: `nn.Linear` computes x @ weight.T: each *row* of a weight makes one number of the result. The packed
matrix has three times as many rows, and as many columns.

Hint: `layer.state_dict()` shows the names and shapes that the layer wants; `load_state_dict` takes a dict of
that form and refuses what does not fit. Which settings of the constructor decide about biases, and about the
order of the axes of x?

Hint: The call needs queries, keys and values, all three from x, and an argument that keeps the heads apart
in the weights.
"""

import torch

from softlookup.learn.mistakes import Fault, shown_at
from softlookup.learn.outcomes import Given
from softlookup.learn.parts import Behaves, Computes

KIND = "write"
AS_GIVEN = "not-written"

_JOINED = ("cat", "concat", "concatenate", "stack", "vstack", "hstack")
_CALLED = ("multi_head_attention_forward",)


def packed(q_weight, k_weight, v_weight):
    return torch.cat([q_weight, k_weight, v_weight])


@shown_at(*_JOINED)
def side_by_side(q_weight, k_weight, v_weight):
    """The matrices stand side by side; they belong one below the other.

    Ask: `nn.Linear` keeps (output, input): which of the two grows when there are three results?
    """
    return torch.cat([q_weight, k_weight, v_weight], dim=1)


@shown_at("transpose", "t", "getattr", *_JOINED)
def weights_transposed_first(q_weight, k_weight, v_weight):
    """Each matrix is turned on its side.

    Ask: Does `nn.MultiheadAttention` keep weights as (input, output), or as `nn.Linear` does?
    """
    return torch.cat([q_weight.T, k_weight.T, v_weight.T])


@shown_at(*_JOINED)
def fused_qkv_misread(q_weight, k_weight, v_weight):
    """The three are there, in another order: what is meant to look for becomes what is looked at.

    Ask: Which third is the first?
    """
    return torch.cat([k_weight, q_weight, v_weight])


@shown_at(*_JOINED)
def values_first(q_weight, k_weight, v_weight):
    """The three are there, in another order: the values come first.

    Ask: Which third is the first?
    """
    return torch.cat([v_weight, k_weight, q_weight])


@shown_at(*_JOINED)
def values_in_the_middle(q_weight, k_weight, v_weight):
    """The three are there, in another order: keys and values have changed places.

    Ask: Which third is the last?
    """
    return torch.cat([q_weight, v_weight, k_weight])


@shown_at(*_JOINED)
def stacked(q_weight, k_weight, v_weight):
    """The three lie behind each other, on an axis of their own.

    Ask: How many axes has a matrix with 3 * d_model rows?
    """
    return torch.stack([q_weight, k_weight, v_weight])


@shown_at("reshape", "view", "flatten", *_JOINED)
def rows_interleaved(q_weight, k_weight, v_weight):
    """The rows take turns: one of q, one of k, one of v.

    Ask: Where does the third of the keys begin, if q has d_model rows?
    """
    return torch.stack([q_weight, k_weight, v_weight], dim=1).flatten(0, 1)


def torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    output, weights = _looked_up(x, packed(q_weight, k_weight, v_weight), num_heads)
    return output @ out_weight.T, weights


def _looked_up(x, in_proj, num_heads):
    """Return the merged heads (B, T, d_model) and the weights (B, H, T, T)."""
    B, T, d_model = x.shape
    q, k, v = (x @ in_proj.T).view(B, T, 3, num_heads, -1).permute(2, 0, 3, 1, 4)  # (B, H, T, d_head) each
    weights = (q @ k.transpose(-2, -1) / (d_model // num_heads) ** 0.5).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2), weights


@shown_at(*_CALLED)
def weights_averaged(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    """The weights are averaged over the heads.

    Ask: What does this layer do with the heads of its weights, if nobody tells it?
    """
    output, weights = torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads)
    return output, weights.mean(1)


@shown_at(*_CALLED)
def batch_sequence_swapped(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    """The layer takes the first axis for tokens: samples look at each other.

    Ask: Which axis comes first for this layer, if nobody tells it?
    """
    turned = x.transpose(0, 1)
    output, weights = torch_attention(turned, q_weight, k_weight, v_weight, out_weight, num_heads)
    return output.transpose(0, 1), weights


@shown_at(*_CALLED)
def output_projection_transposed(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    """The weight of the output projection is turned on its side.

    Ask: In which order does an `nn.Linear` keep input and output, and what is `out_proj`?
    """
    return torch_attention(x, q_weight, k_weight, v_weight, out_weight.T, num_heads)


@shown_at(*_CALLED)
def heads_counted_wrong(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    """There is one head only.

    Ask: Which argument of the constructor says how many heads share d_model?
    """
    return torch_attention(x, q_weight, k_weight, v_weight, out_weight, 1)


@shown_at(*_CALLED)
def projected_twice(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    """The tokens are projected before the layer, which then projects them once more.

    Ask: Who multiplies by in_proj_weight: you or the layer?
    """
    q, k, v = x @ q_weight.T, x @ k_weight.T, x @ v_weight.T
    B, T, _ = x.shape
    q, k, v = (
        (it @ weight.T).view(B, T, num_heads, -1).transpose(1, 2)
        for it, weight in ((q, q_weight), (k, k_weight), (v, v_weight))
    )
    weights = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).softmax(-1)
    return (weights @ v).transpose(1, 2).flatten(2) @ out_weight.T, weights


@shown_at(*_CALLED)
def weights_missing(x, q_weight, k_weight, v_weight, out_weight, num_heads):
    """The weights are None: the layer was told, or led to believe, that nobody needs them.

    Ask: What does `need_weights` say?
    """
    return torch_attention(x, q_weight, k_weight, v_weight, out_weight, num_heads)[0], None


_MAKE = torch.Generator().manual_seed(63)


def _random(*shape):
    return torch.randn(*shape, generator=_MAKE)


def _three(d_model):
    return Given(*(_random(d_model, d_model) for _ in range(3)))


def _layer(B, T, d_model, num_heads):
    return Given(_random(B, T, d_model), *(_random(d_model, d_model) / 2 for _ in range(4)), num_heads)


_CARRIED = _layer(1, 3, 4, 2).args


def _with_others(*places):
    """Return the same call with other weights in these places."""
    others = {place: torch.ones_like(_CARRIED[place]) for place in places}
    return Given(*(others.get(i, it) for i, it in enumerate(_CARRIED)))


def _left_behind(outcomes):
    """Judge three calls: two differ from the first in some weights, so their outputs should differ."""
    firsts = [it.value[0] if isinstance(it.value, (tuple, list)) else None for it in outcomes]
    outputs = [it for it in firsts if isinstance(it, torch.Tensor)]
    if len(outputs) < len(outcomes):
        return None  # the next part speaks of that
    first, inner, outer = outputs
    lost = [torch.equal(it, first) for it in (inner, outer)]
    if all(lost):
        words = "Other weights give the same output: the layer has the random ones with which it was built."
        question = "In which line do the weights that were handed in reach the layer?"
        return Fault("nothing-carried", words, question, _CALLED)
    if lost[0]:
        words = "The projections of q, k and v are still the random ones with which the layer was built."
        question = "Does an attribute that you set have the name under which the layer looks for it?"
        return Fault("input-projections-left-behind", words, question, _CALLED)
    if lost[1]:
        words = "The output projection is still the random one with which the layer was built."
        question = "How many weights does your layer of lesson 5 have, and how many of them have travelled?"
        return Fault("output-projection-left-behind", words, question, _CALLED)
    return None


PARTS = (
    Computes(
        "packed",
        packed,
        [_three(2), _three(4)],
        [
            side_by_side,
            weights_transposed_first,
            fused_qkv_misread,
            values_first,
            values_in_the_middle,
            stacked,
            rows_interleaved,
        ],
    ),
    Behaves(
        "torch_attention",
        [_with_others(), _with_others(1, 2, 3), _with_others(4)],
        _left_behind,
        "all weights reach the layer",
    ),
    Computes(
        "torch_attention",
        torch_attention,
        [_layer(2, 3, 4, 2), _layer(1, 4, 6, 3), _layer(3, 2, 4, 4)],
        [
            weights_averaged,
            batch_sequence_swapped,
            output_projection_transposed,
            heads_counted_wrong,
            projected_twice,
            weights_missing,
        ],
    ),
)
